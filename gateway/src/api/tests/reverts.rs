//! Reverts of merged pull requests: a new branch, and a pull request of it.

use axum::body::Body;
use ferrite_proto::error::Kind;
use ferrite_proto::git;
use ferrite_proto::issue::{self, IssueState};
use http::Request;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::GOOD;
use super::git_data::{ACCESS, Case, GIT, access_of, commit, refusal};
use super::script::Script;
use crate::router;

const GET: &str = "ferrite.issue.v1.PullService/GetPull";
const CREATE: &str = "ferrite.issue.v1.PullService/CreatePull";
const DESCRIBE: &str = "ferrite.git.v1.MergeService/DescribePulls";
const REVERT: &str = "ferrite.git.v1.MergeService/RevertMerge";

fn pull(number: i64, ends: issue::PullRequest) -> Option<issue::Issue> {
    Some(issue::Issue {
        number,
        user_id: 3,
        title: "Read long lines".into(),
        state: if ends.is_merged { IssueState::Closed } else { IssueState::Open }.into(),
        create_time: Some(ferrite_core::timestamp(0)),
        update_time: Some(ferrite_core::timestamp(0)),
        pull_request: Some(ends),
        ..Default::default()
    })
}

fn respond(script: &Script) {
    let mut access = access_of(None);
    let repository = access.repository.as_mut().unwrap();
    (repository.create_time, repository.update_time) =
        (Some(ferrite_core::timestamp(0)), Some(ferrite_core::timestamp(0)));
    script.respond(ACCESS, &access);
    let merged = issue::PullRequest { base_branch: "main".into(), is_merged: true, ..Default::default() };
    script.respond(GET, &issue::GetPullResponse { pull: pull(2, merged) });
    script.respond(REVERT, &git::RevertMergeResponse { commit_id: "a".repeat(40), branch: "revert-2-2".into() });
    let ends = issue::PullRequest {
        head_repository_id: 7,
        head_branch: "revert-2-2".into(),
        base_branch: "main".into(),
        head_id: "a".repeat(40),
        merge_base_id: "b".repeat(40),
        ..Default::default()
    };
    script.respond(CREATE, &issue::CreatePullResponse { pull: pull(8, ends) });
    script.respond(DESCRIBE, &git::DescribePullsResponse { pulls: vec![git::PullDescription::default()] });
    // The branch, if it is deleted.
    script.tell(&format!("{GIT}/GetBranch"), "0123456789abcdef0123456789abcdef");
    let branch = git::Branch { name: b"revert-2-2".to_vec(), commit: Some(commit('a')), is_protected: false };
    script.respond(&format!("{GIT}/GetBranch"), &git::GetBranchResponse { branch: Some(branch) });
    script.respond(&format!("{GIT}/DeleteBranch"), &git::DeleteBranchResponse {});
}

async fn case() -> Case {
    let case = Case::new().await;
    respond(&case.script);
    case
}

#[tokio::test]
async fn a_revert_is_a_branch_and_a_pull_request_of_it() {
    let case = case().await;
    let given = json!({"title": " Take it back ", "body": "Lines are lost.", "branch": "undo"});
    let blank = json!({"title": " ", "body": "", "branch": ""});
    let title = "Revert \"Read long lines\"";
    for (body, branch, title, text) in [
        (Value::Null, "", title, "Reverts #2"),
        (blank, "", title, "Reverts #2"),
        (given, "undo", "Take it back", "Lines are lost."),
    ] {
        let (status, shown, _) = case.send("POST", "/pulls/2/revert", &body).await;
        assert_eq!(
            (status, &shown["number"], &shown["head"]["ref"]),
            (201, &json!(8), &json!("revert-2-2")),
            "{shown}"
        );
        let asked = git::RevertMergeRequest {
            repository_id: 7,
            number: 2,
            new_branch: branch.into(),
            base_branch: "main".into(),
            message: format!("{title}\n\nThis reverts #2.\n"),
        };
        assert_eq!(case.script.take_request(REVERT), Some(asked), "{body}");
        let made = issue::CreatePullRequest {
            repository_id: 7,
            base_branch: "main".into(),
            head_repository_id: 7,
            head_branch: "revert-2-2".into(),
            head_grant: "grant".into(),
            title: title.into(),
            body: text.into(),
            ..Default::default()
        };
        assert_eq!(case.script.take_request(CREATE), Some(made), "{body}");
        assert!(!case.script.took_request(&format!("{GIT}/DeleteBranch")));
    }
}

#[tokio::test]
async fn a_refused_revert_opens_nothing() {
    let case = case().await;
    for (body, field) in [
        (json!({"title": "ä".repeat(256)}), "title"),
        (json!({"title": "a\u{7}"}), "title"),
        (json!({"body": 7}), "body"),
        (json!({"branch": ["main"]}), "branch"),
    ] {
        let (status, refused, _) = case.send("POST", "/pulls/2/revert", &body).await;
        assert_eq!((status, &refused["errors"][0]["field"]), (422, &json!(field)), "{body}");
        assert!(!case.script.took_request(REVERT), "{body}");
    }
    for (kind, reason, expected) in [
        (Kind::NotFound, "MERGE_NOT_FOUND", 404),
        (Kind::NotFound, "BRANCH_NOT_FOUND", 404),
        (Kind::AlreadyExists, "BRANCH_EXISTS", 409),
        (Kind::FailedPrecondition, "MERGE_CONFLICT", 409),
        (Kind::FailedPrecondition, "NOTHING_TO_MERGE", 409),
        (Kind::PermissionDenied, "BRANCH_PROTECTED", 403),
    ] {
        case.script.fail(REVERT, refusal(kind, reason));
        let (status, refused, _) = case.send("POST", "/pulls/2/revert", &Value::Null).await;
        assert_eq!((status, &refused["reason"]), (expected, &json!(reason)));
        assert!(!case.script.took_request(CREATE), "{reason}");
    }
}

#[tokio::test]
async fn the_branch_goes_if_no_pull_request_was_opened() {
    let (gateway, script) = Script::gateway().await;
    respond(&script);
    let delete = format!("{GIT}/DeleteBranch");
    let revert = async |key: Option<&str>| {
        let mut request = Request::post("/api/v1/repos/bob/demo/pulls/2/revert").header("authorization", GOOD);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        router(&gateway.state).oneshot(request.body(Body::empty()).unwrap()).await.unwrap().status().as_u16()
    };
    for (kind, key, status, is_deleted) in [
        (Kind::RateLimited, None, 429, true),
        (Kind::NotFound, None, 404, true),
        // The same request would need it.
        (Kind::RateLimited, Some("k"), 429, false),
        // The pull request may be there.
        (Kind::Overloaded, None, 503, false),
    ] {
        script.fail(CREATE, refusal(kind, "REFUSED"));
        assert_eq!(revert(key).await, status);
        let branch =
            || git::DeleteBranchRequest { repository_id: 7, name: b"revert-2-2".to_vec(), commit_id: "a".repeat(40) };
        let expected = is_deleted.then(branch);
        assert_eq!(script.take_request(&delete), expected, "{status}");
    }
}
