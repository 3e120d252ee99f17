//! Reactions to issues and comments.

use ferrite_core::timestamp;
use ferrite_proto::error::Kind;
use ferrite_proto::issue::reaction_subject::Subject;
use ferrite_proto::issue::{self, ReactionSubject};
use ferrite_proto::repo::CheckAccessResponse;
use serde_json::{Value, json};

use super::BROKEN;
use super::tracker::{Tracker, failure, shown_bob};

const REACTIONS: &str = "ferrite.issue.v1.ReactionService";
const PLACES: [(&str, Subject); 2] = [
    ("/repos/bob/demo/issues/2/reactions", Subject::IssueNumber(2)),
    ("/repos/bob/demo/issues/comments/4/reactions", Subject::CommentId(4)),
];

fn named(subject: Subject) -> Option<ReactionSubject> {
    Some(ReactionSubject { subject: Some(subject) })
}

fn reaction() -> issue::Reaction {
    issue::Reaction { user_id: 3, content: "+1".into(), create_time: Some(timestamp(0)) }
}

fn shown_reaction() -> Value {
    json!({"user": shown_bob(), "content": "+1", "created_at": "1970-01-01T00:00:00Z"})
}

#[tokio::test]
async fn reactions_are_listed_with_their_users() {
    let tracker = Tracker::new().await;
    let rpc = format!("{REACTIONS}/ListReactions");
    for (path, subject) in PLACES {
        let page_size = 1000;
        let expected = issue::ListReactionsRequest { repository_id: 7, subject: named(subject), page: 1, page_size };
        let response =
            issue::ListReactionsResponse { reactions: vec![reaction(), reaction()], total_count: 2, is_partial: false };
        let shown = tracker.check(("GET", path, ""), &rpc, expected, response).await;
        assert_eq!(shown, (200, json!([shown_reaction(), shown_reaction()])));
        assert_eq!(tracker.lookup().unwrap().user_ids, [3]);
    }
}

#[tokio::test]
async fn a_reaction_is_added_once_and_removed() {
    let tracker = Tracker::new().await;
    for (path, subject) in PLACES {
        for (is_new, status) in [(true, 201), (false, 200)] {
            let expected =
                issue::AddReactionRequest { repository_id: 7, subject: named(subject), content: "+1".into() };
            let response = issue::AddReactionResponse { reaction: Some(reaction()), is_new };
            let request = ("POST", path, r#"{"content":"+1"}"#);
            let shown = tracker.check(request, &format!("{REACTIONS}/AddReaction"), expected, response).await;
            assert_eq!(shown, (status, shown_reaction()), "{path}");
        }
        let expected = issue::RemoveReactionRequest { repository_id: 7, subject: named(subject), content: "-1".into() };
        let (request, rpc) = (("DELETE", path, r#"{"content":"-1"}"#), format!("{REACTIONS}/RemoveReaction"));
        // An empty message has the same encoding for every type.
        let shown = tracker.check(request, &rpc, expected, CheckAccessResponse::default()).await;
        assert_eq!(shown, (204, Value::Null), "{path}");
    }
}

#[tokio::test]
async fn an_unknown_reaction_is_named_after_refusals() {
    let tracker = Tracker::new().await;
    for (path, subject) in PLACES {
        for (method, rpc) in [("POST", "AddReaction"), ("DELETE", "RemoveReaction")] {
            let rpc = format!("{REACTIONS}/{rpc}");
            tracker.script.fail(&rpc, failure(Kind::InvalidArgument, "INVALID_REQUEST"));
            for (body, code) in
                [(r#"{"content":"thumbsup"}"#, "unknown"), ("{}", "required"), (r#"{"content":7}"#, "type")]
            {
                let (status, shown) = tracker.send(method, path, body).await;
                let error = &shown["errors"][0];
                assert_eq!((status, &error["field"], &error["code"]), (422, &json!("content"), &json!(code)), "{body}");
            }
            let (_, shown) = tracker.send(method, path, r#"{"content":"thumbsup"}"#).await;
            let names = "must be `+1`, `-1`, `laugh`, `hooray`, `confused`, `heart`, `rocket` or `eyes`";
            assert_eq!(shown["errors"][0]["message"], names);
            // The messages of both requests have the same encoding.
            let blank = issue::AddReactionRequest { repository_id: 7, subject: named(subject), ..Default::default() };
            assert_eq!(tracker.script.take_request(&rpc), Some(blank), "{method} {path}");
            for reason in ["ISSUES_DISABLED", "ISSUE_NOT_FOUND", "COMMENT_NOT_FOUND"] {
                tracker.script.fail(&rpc, failure(Kind::NotFound, reason));
                assert_eq!(tracker.send(method, path, BROKEN).await.0, 404, "{method} {path} {reason}");
            }
        }
    }
}
