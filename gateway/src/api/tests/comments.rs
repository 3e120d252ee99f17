use ferrite_core::timestamp;
use ferrite_proto::issue;
use ferrite_proto::repo::CheckAccessResponse;
use serde_json::{Value, json};

use super::tracker::{COMMENTS, Tracker, shown_bob};

fn comment() -> issue::Comment {
    issue::Comment {
        id: 4,
        repository_id: 7,
        issue_number: 2,
        user_id: 3,
        body: "b".into(),
        create_time: Some(timestamp(0)),
        update_time: Some(timestamp(1_000_000)),
        ..Default::default()
    }
}

fn shown_comment() -> Value {
    json!({
        "id": 4, "html_url": "http://git.example.com/Bob/Demo/issues/2#issuecomment-4", "user": shown_bob(), "body": "b",
        "created_at": "1970-01-01T00:00:00Z", "updated_at": "1970-01-01T00:00:01Z",
    })
}

#[tokio::test]
async fn comments_are_listed_for_an_issue_and_for_all() {
    let tracker = Tracker::new().await;
    let rpc = format!("{COMMENTS}/ListComments");
    let pull = issue::Comment { is_pull_request: true, user_id: 9, ..comment() };
    let response = issue::ListCommentsResponse { comments: vec![comment(), pull], total_count: 2, is_partial: false };
    let since = Some(timestamp(1_767_315_845_000_000));
    for (path, issue_number, since, page_size) in [
        ("/repos/bob/demo/issues/2/comments", 2, None, 1000),
        ("/repos/bob/demo/issues/comments?since=2026-01-02T02:04:05+01:00&limit=20", 0, since, 20),
        ("/repos/bob/demo/issues/x/comments?since=&limit=5000", i64::MAX, None, 1000),
    ] {
        let expected = issue::ListCommentsRequest { repository_id: 7, issue_number, since, page: 1, page_size };
        let (status, shown) = tracker.check(("GET", path, ""), &rpc, expected, response.clone()).await;
        assert_eq!((status, &shown[0]), (200, &shown_comment()));
        assert_eq!(shown[1]["html_url"], "http://git.example.com/Bob/Demo/pulls/2#issuecomment-4");
        assert_eq!(tracker.lookup().unwrap().user_ids, [3, 9]);
    }
    let none = issue::ListCommentsResponse::default();
    tracker.script.respond(&rpc, &none);
    assert_eq!(tracker.send("GET", "/repos/bob/demo/issues/comments", "").await, (200, json!([])));
    assert_eq!(tracker.lookup(), None);
}

#[tokio::test]
async fn a_page_of_comments_that_is_too_long_names_its_limit() {
    let tracker = Tracker::new().await;
    tracker.script.fail(&format!("{COMMENTS}/ListComments"), tonic::Status::out_of_range("too large"));
    let (status, shown) = tracker.send("GET", "/repos/bob/demo/issues/2/comments", "").await;
    assert_eq!((status, &shown["errors"][0]["field"]), (422, &json!("limit")));
}

#[tokio::test]
async fn a_comment_is_found_with_and_without_the_number_of_its_issue() {
    let tracker = Tracker::new().await;
    for (path, issue_number, comment_id) in [
        ("/repos/bob/demo/issues/2/comments/4", 2, 4),
        ("/repos/bob/demo/issues/comments/4", 0, 4),
        ("/repos/bob/demo/issues/0/comments/x", i64::MAX, i64::MAX),
    ] {
        let (get, update, remove) = (
            issue::GetCommentRequest { repository_id: 7, issue_number, comment_id },
            issue::UpdateCommentRequest { repository_id: 7, issue_number, comment_id, body: "b".into() },
            issue::DeleteCommentRequest { repository_id: 7, issue_number, comment_id },
        );
        let response = issue::GetCommentResponse { comment: Some(comment()) };
        let response = tracker.check(("GET", path, ""), &format!("{COMMENTS}/GetComment"), get, response).await;
        assert_eq!(response, (200, shown_comment()));
        let response = issue::UpdateCommentResponse { comment: Some(comment()) };
        let request = ("PATCH", path, r#"{"body":"b"}"#);
        let response = tracker.check(request, &format!("{COMMENTS}/UpdateComment"), update, response).await;
        assert_eq!(response, (200, shown_comment()));
        let rpc = format!("{COMMENTS}/DeleteComment");
        // An empty message has the same encoding for every type.
        let response = tracker.check(("DELETE", path, ""), &rpc, remove, CheckAccessResponse::default()).await;
        assert_eq!(response, (204, Value::Null));
    }
}

#[tokio::test]
async fn a_comment_is_written() {
    let tracker = Tracker::new().await;
    let expected = issue::CreateCommentRequest { repository_id: 7, issue_number: 2, body: "b".into() };
    let response = issue::CreateCommentResponse { comment: Some(comment()) };
    let request = ("POST", "/repos/bob/demo/issues/2/comments", r#"{"body":"b"}"#);
    let response = tracker.check(request, &format!("{COMMENTS}/CreateComment"), expected, response).await;
    assert_eq!(response, (201, shown_comment()));
}
