//! Merges of pull requests, updates of their heads, and what they change.

use axum::body::Body;
use axum::response::Response;
use ferrite_proto::error::Kind;
use ferrite_proto::git::{self, MergeStyle};
use ferrite_proto::issue::{self, IssueState};
use ferrite_proto::repo;
use http::Request;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::GOOD;
use super::git_data::{ACCESS, Case, GIT, access_of, bob, commit, refusal};
use super::script::Script;
use super::tracker::shown_bob;
use crate::router;

const PERMIT: &str = "ferrite.issue.v1.PullService/PermitMerge";
const GET: &str = "ferrite.issue.v1.PullService/GetPull";
const MERGE: &str = "ferrite.git.v1.MergeService/MergePull";
const MARK: &str = "ferrite.issue.v1.PullService/MarkMerged";
const SCHEDULE: &str = "ferrite.issue.v1.PullService/ScheduleMerge";
const CANCEL: &str = "ferrite.issue.v1.PullService/CancelMerge";
const UPDATE: &str = "ferrite.git.v1.MergeService/UpdatePullHead";
const REVIEWS: &str = "ferrite.issue.v1.PullService/GetMergeReviews";
const REQUIREMENTS: &str = "ferrite.git.v1.MergeService/GetMergeRequirements";
const CONFLICTS: &str = "ferrite.git.v1.MergeService/GetConflicts";
const COMPARE: &str = "ferrite.git.v1.DiffService/Compare";

fn ends() -> issue::PullRequest {
    issue::PullRequest {
        head_repository_id: 7,
        head_branch: "topic".into(),
        base_branch: "main".into(),
        head_id: "a".repeat(40),
        merge_base_id: "b".repeat(40),
        ..Default::default()
    }
}

fn pull(ends: issue::PullRequest) -> Option<issue::Issue> {
    Some(issue::Issue {
        number: 2,
        user_id: 3,
        title: "Read long lines".into(),
        body: "Body.".into(),
        state: IssueState::Open.into(),
        pull_request: Some(ends),
        ..Default::default()
    })
}

fn merged(number: i64) -> git::MergePullResponse {
    git::MergePullResponse {
        merge: Some(git::Merge {
            number,
            style: git::MergeStyle::Merge.into(),
            head_id: "a".repeat(40),
            ..Default::default()
        }),
    }
}

/// A pull request that can be merged.
fn respond(script: &Script, settings: repo::PullSettings) {
    let mut access = access_of(None);
    access.repository.as_mut().unwrap().pulls = Some(settings);
    script.respond(ACCESS, &access);
    let permit = "permit".to_owned();
    script.respond(PERMIT, &issue::PermitMergeResponse { permit, pull: pull(ends()), is_head_shared: false });
    script.respond(GET, &issue::GetPullResponse { pull: pull(ends()) });
    script.respond(MERGE, &merged(2));
}

fn settings() -> repo::PullSettings {
    repo::PullSettings {
        has_pulls: true,
        allow_merge: true,
        allow_squash: true,
        allow_rebase_update: true,
        ..Default::default()
    }
}

async fn case() -> Case {
    let case = Case::new().await;
    respond(&case.script, settings());
    case
}

#[tokio::test]
async fn a_merge_is_permitted_and_then_carried_out() {
    let case = case().await;
    let title = "Merge pull request 'Read long lines' (#2) from topic into main";
    let squashed = git::CommitIdentity { name: bob().username, email: bob().email, ..Default::default() };
    let head = "a".repeat(40);
    for (body, style, head_id, message, author) in [
        (Value::Null, MergeStyle::Merge, "", title, None),
        (
            // As the SDK for Go sends what its user left out.
            json!({"Do": "", "MergeCommitID": "", "MergeTitleField": "", "MergeMessageField": "",
                   "delete_branch_after_merge": false, "force_merge": false, "head_commit_id": "",
                   "merge_when_checks_succeed": false}),
            MergeStyle::Merge,
            "",
            title,
            None,
        ),
        (
            json!({"do": "merge", "merge_title_field": "T", "MergeMessageField": "M", "head_commit_id": head}),
            MergeStyle::Merge,
            &head,
            "T\n\nM",
            None,
        ),
        (json!({"Do": "squash"}), MergeStyle::Squash, "", "Read long lines (#2)\n\nBody.", Some(squashed)),
    ] {
        let (status, shown, _) = case.send("POST", "/pulls/2/merge", &body).await;
        assert_eq!((status, shown), (200, Value::Null), "{body}");
        let asked =
            issue::PermitMergeRequest { repository_id: 7, number: 2, style: style.into(), head_id: head_id.into() };
        assert_eq!(case.script.take_request(PERMIT), Some(asked), "{body}");
        let expected =
            git::MergePullRequest { repository_id: 7, permit: "permit".into(), message: message.into(), author };
        assert_eq!(case.script.take_request(MERGE), Some(expected), "{body}");
        assert!(!case.script.took_request(&format!("{GIT}/DeleteBranch")));
    }
}

#[tokio::test]
async fn what_a_merge_cannot_have_is_named() {
    let case = case().await;
    for (body, status, field) in [
        (json!({"Do": "octopus"}), 422, "Do"),
        (json!({"force_merge": true}), 422, "force_merge"),
        (json!({"merge_when_checks_succeed": "later"}), 422, "merge_when_checks_succeed"),
        (json!({"do": 7}), 422, "Do"),
    ] {
        let (found, refused, _) = case.send("POST", "/pulls/2/merge", &body).await;
        assert_eq!((found, refused["errors"][0]["field"].as_str().unwrap_or_default()), (status, field), "{body}");
        assert!(!case.script.took_request(PERMIT) && !case.script.took_request(MERGE), "{body}");
    }
}

#[tokio::test]
async fn a_refused_merge_has_the_status_that_clients_expect() {
    let case = case().await;
    for (rpc, kind, reason, expected) in [
        (PERMIT, Kind::NotFound, "PULL_NOT_FOUND", 404),
        (PERMIT, Kind::FailedPrecondition, "PULL_CLOSED", 404),
        (PERMIT, Kind::FailedPrecondition, "ALREADY_MERGED", 405),
        (PERMIT, Kind::FailedPrecondition, "STYLE_NOT_ALLOWED", 405),
        (PERMIT, Kind::FailedPrecondition, "IS_DRAFT", 405),
        (PERMIT, Kind::Aborted, "HEAD_MOVED", 409),
        (MERGE, Kind::FailedPrecondition, "ALREADY_MERGED", 405),
        (MERGE, Kind::PermissionDenied, "PROTECTED_BRANCH", 405),
        (MERGE, Kind::PermissionDenied, "MERGE_FORBIDDEN", 405),
        (MERGE, Kind::PermissionDenied, "BAD_PERMIT", 503),
        (MERGE, Kind::PermissionDenied, "PERMISSION_REQUIRED", 403),
        (MERGE, Kind::FailedPrecondition, "MERGE_CONFLICT", 409),
        (MERGE, Kind::Aborted, "NOT_FAST_FORWARD", 409),
        (MERGE, Kind::FailedPrecondition, "NOTHING_TO_MERGE", 409),
        (MERGE, Kind::NotFound, "NO_COMMON_HISTORY", 409),
        (MERGE, Kind::Aborted, "BASE_MOVED", 409),
        (MERGE, Kind::TooLarge, "TOO_LARGE", 422),
    ] {
        respond(&case.script, settings());
        case.script.fail(rpc, refusal(kind, reason));
        let (status, refused, _) = case.send("POST", "/pulls/2/merge", &Value::Null).await;
        assert_eq!((status, &refused["reason"]), (expected, &json!(reason)));
    }
}

#[tokio::test]
async fn a_merge_made_by_hand_is_marked_and_merges_nothing() {
    let case = case().await;
    let (head, base) = ("a".repeat(40), "c".repeat(40));
    let delete = format!("{GIT}/DeleteBranch");
    let marked = |is_head_shared| issue::MarkMergedResponse { pull: pull(ends()), is_head_shared };
    case.script.respond(MARK, &marked(false));
    for (body, commit_id, head_id) in [
        (json!({"Do": "manually-merged", "MergeCommitID": base, "head_commit_id": head}), &*base, &*head),
        (json!({"do": "manually-merged", "merge_commit_id": base, "title": ""}), &*base, ""),
        (json!({"Do": "manually-merged", "MergeCommitID": ""}), "", ""),
    ] {
        let (status, shown, _) = case.send("POST", "/pulls/2/merge", &body).await;
        assert_eq!((status, shown), (200, Value::Null), "{body}");
        let (commit_id, head_id) = (commit_id.to_owned(), head_id.to_owned());
        let expected = issue::MarkMergedRequest { repository_id: 7, number: 2, commit_id, head_id };
        assert_eq!(case.script.take_request(MARK), Some(expected), "{body}");
        for unasked in [PERMIT, MERGE, &delete] {
            assert!(!case.script.took_request(unasked), "{body}");
        }
    }
    let body = json!({"Do": "manually-merged", "MergeCommitID": base, "delete_branch_after_merge": true});
    case.script.respond(&delete, &git::DeleteBranchResponse {});
    for is_head_shared in [true, false] {
        case.script.respond(MARK, &marked(is_head_shared));
        assert_eq!(case.send("POST", "/pulls/2/merge", &body).await.0, 200);
        assert_eq!(case.script.took_request(&delete), !is_head_shared);
    }
    for (kind, reason, expected) in [
        (Kind::FailedPrecondition, "STYLE_NOT_ALLOWED", 405),
        (Kind::FailedPrecondition, "ALREADY_MERGED", 405),
        (Kind::FailedPrecondition, "PULL_CLOSED", 404),
        (Kind::NotFound, "PULL_NOT_FOUND", 404),
        (Kind::NotFound, "BRANCH_NOT_FOUND", 404),
        (Kind::Aborted, "HEAD_MOVED", 409),
        (Kind::Aborted, "BASE_MOVED", 409),
    ] {
        case.script.fail(MARK, refusal(kind, reason));
        let (status, refused, _) = case.send("POST", "/pulls/2/merge", &body).await;
        assert_eq!((status, &refused["reason"]), (expected, &json!(reason)));
    }
}

#[tokio::test]
async fn what_the_protection_does_not_allow_yet_is_scheduled_if_wanted() {
    let case = case().await;
    respond(&case.script, settings());
    case.script.respond(SCHEDULE, &issue::ScheduleMergeResponse { pull: pull(ends()) });
    let body = json!({"merge_when_checks_succeed": true, "delete_branch_after_merge": true,
                      "head_commit_id": "a".repeat(40), "MergeTitleField": "T"});
    assert_eq!(case.send("POST", "/pulls/2/merge", &body).await.0, 200);
    assert!(!case.script.took_request(SCHEDULE));
    case.script.fail(MERGE, refusal(Kind::PermissionDenied, "PROTECTED_BRANCH"));
    let (status, shown, _) = case.send("POST", "/pulls/2/merge", &body).await;
    assert_eq!((status, shown), (201, Value::Null));
    let expected = issue::ScheduleMergeRequest {
        repository_id: 7,
        number: 2,
        style: MergeStyle::Merge.into(),
        head_id: "a".repeat(40),
        message: "T".into(),
        author: None,
        deletes_branch: true,
    };
    assert_eq!(case.script.take_request(SCHEDULE), Some(expected));
    case.script.fail(SCHEDULE, refusal(Kind::AlreadyExists, "MERGE_SCHEDULED"));
    assert_eq!(case.send("POST", "/pulls/2/merge", &body).await.0, 409);
    assert!(case.script.took_request(SCHEDULE));
    // It would never be allowed.
    case.script.fail(MERGE, refusal(Kind::PermissionDenied, "MERGE_FORBIDDEN"));
    assert_eq!(case.send("POST", "/pulls/2/merge", &body).await.0, 405);
    assert!(!case.script.took_request(SCHEDULE));

    case.script.respond(CANCEL, &issue::CancelMergeResponse {});
    assert_eq!(case.send("DELETE", "/pulls/2/merge", &Value::Null).await.0, 204);
    case.check_request(CANCEL, issue::CancelMergeRequest { repository_id: 7, number: 2 });
    case.script.fail(CANCEL, refusal(Kind::NotFound, "MERGE_NOT_SCHEDULED"));
    assert_eq!(case.send("DELETE", "/pulls/2/merge", &Value::Null).await.0, 404);
}

#[tokio::test]
async fn a_conflict_names_up_to_ten_files() {
    let case = case().await;
    case.script.fail(MERGE, refusal(Kind::FailedPrecondition, "MERGE_CONFLICT"));
    let file = |number: i32| git::ConflictFile {
        path: format!("f{number}").into_bytes(),
        kind: "content".into(),
        ranges: vec![git::ConflictRange {
            base: Some(git::LineRange { start: 1, line_count: 2 }),
            ours: Some(git::LineRange { start: 3, line_count: 0 }),
            theirs: None,
        }],
    };
    let files: Vec<_> = (0..12).map(file).collect();
    let found = git::GetConflictsResponse { files: files.clone(), total_count: 120, ..Default::default() };
    case.script.respond(CONFLICTS, &found);
    let (status, refused, _) = case.send("POST", "/pulls/2/merge", &Value::Null).await;
    let named: Vec<_> = (0..10).map(|number| format!("`f{number}`")).collect();
    let message = format!("conflicts in {} and 110 more", named.join(", "));
    assert_eq!((status, &refused["message"], &refused["reason"]), (409, &json!(message), &json!("MERGE_CONFLICT")));

    let (status, shown, _) = case.send("GET", "/pulls/2/conflicts", &Value::Null).await;
    let first = json!({"path": "f0", "kind": "content",
                       "ranges": [{"base": [1, 2], "ours": [3, 0], "theirs": [0, 0]}]});
    assert_eq!((status, &shown["files"][0], &shown["total_count"]), (200, &first, &json!(120)));
    let ends = git::PullEnds { base_branch: "main".into(), head_id: "a".repeat(40) };
    case.check_request(CONFLICTS, git::GetConflictsRequest { repository_id: 7, pull: Some(ends) });
}

#[tokio::test]
async fn a_merge_is_checked_with_the_reviews_that_issue_svc_counts() {
    let case = case().await;
    let path = "/pulls/2/merge-requirements";
    let reviews = git::MergeReviews { approver_ids: vec![3], ..Default::default() };
    let reviews_of = |pull, reviews| issue::GetMergeReviewsResponse { pull, reviews, is_head_shared: true };
    case.script.respond(REVIEWS, &reviews_of(pull(ends()), Some(reviews.clone())));
    case.script.respond(REQUIREMENTS, &git::GetMergeRequirementsResponse::default());
    let (status, shown, _) = case.send("GET", path, &Value::Null).await;
    assert_eq!((status, &shown["can_merge"], &shown["behind"]), (200, &json!(true), &json!(false)), "{shown}");
    assert_eq!((&shown["head_shared"], &shown["counted_reviewers"]), (&json!(true), &json!([shown_bob()])));
    assert_eq!(
        (&shown["merge_styles"], &shown["head_commit_id"]),
        (&json!(["merge", "squash"]), &json!("a".repeat(40)))
    );
    let asked = issue::GetMergeReviewsRequest { repository_id: 7, number: 2 };
    assert_eq!(case.script.take_request(REVIEWS), Some(asked));
    let ends_of_git = git::PullEnds { base_branch: "main".into(), head_id: "a".repeat(40) };
    let asked = git::GetMergeRequirementsRequest { repository_id: 7, pull: Some(ends_of_git), reviews: Some(reviews) };
    assert_eq!(case.script.take_request(REQUIREMENTS), Some(asked));

    // git is not asked about one that is not open.
    for (is_merged, reason) in [(true, "ALREADY_MERGED"), (false, "PULL_CLOSED")] {
        let closed = pull(issue::PullRequest { is_merged, ..ends() });
        let closed = closed.map(|pull| issue::Issue { state: IssueState::Closed.into(), ..pull });
        case.script.respond(REVIEWS, &reviews_of(closed, None));
        let (status, shown, _) = case.send("GET", path, &Value::Null).await;
        assert_eq!((status, &shown["can_merge"]), (200, &json!(false)));
        assert_eq!(shown["requirements"][0]["reason"], reason);
        assert!(!case.script.took_request(REQUIREMENTS));
    }
    case.script.fail(REVIEWS, refusal(Kind::NotFound, "PULL_NOT_FOUND"));
    assert_eq!(case.send("GET", path, &Value::Null).await.0, 404);
}

#[tokio::test]
async fn the_head_is_deleted_if_it_is_what_was_merged() {
    let case = case().await;
    let delete = format!("{GIT}/DeleteBranch");
    case.script.respond(&delete, &git::DeleteBranchResponse {});
    let by_default = repo::PullSettings { delete_branch_after_merge: true, ..settings() };
    for (settings, option, is_deleted) in [
        (settings(), json!(true), true),
        (settings(), Value::Null, false),
        (by_default.clone(), Value::Null, true),
        (by_default, json!(false), false),
    ] {
        respond(&case.script, settings);
        let body = json!({"delete_branch_after_merge": option});
        assert_eq!(case.send("POST", "/pulls/2/merge", &body).await.0, 200, "{body}");
        let expected = is_deleted.then(|| git::DeleteBranchRequest {
            repository_id: 7,
            name: b"topic".to_vec(),
            commit_id: "a".repeat(40),
        });
        assert_eq!(case.script.take_request(&delete), expected, "{body}");
    }
    // Others need the branch.
    let permit = "permit".to_owned();
    let shared = issue::PermitMergeResponse { permit, pull: pull(ends()), is_head_shared: true };
    case.script.respond(PERMIT, &shared);
    let body = json!({"delete_branch_after_merge": true});
    assert_eq!(case.send("POST", "/pulls/2/merge", &body).await.0, 200);
    assert!(!case.script.took_request(&delete));
    respond(&case.script, settings());
    // The pull request is merged all the same.
    case.script.fail(&delete, refusal(Kind::PermissionDenied, "DEFAULT_BRANCH"));
    assert_eq!(case.send("POST", "/pulls/2/merge", &body).await.0, 200);
}

#[tokio::test]
async fn a_repeated_merge_with_its_key_has_its_response() {
    let (gateway, script) = Script::gateway().await;
    respond(&script, settings());
    let merge = async |key: Option<&str>| -> Response {
        let mut request = Request::post("/api/v1/repos/bob/demo/pulls/2/merge").header("authorization", GOOD);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        router(&gateway.state).oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    };
    assert_eq!(merge(Some("k")).await.status(), 200);
    assert!(script.had_idempotency_key(MERGE) && !script.had_idempotency_key(PERMIT));
    script.take_request::<git::MergePullRequest>(MERGE).unwrap();
    script.fail(PERMIT, refusal(Kind::FailedPrecondition, "ALREADY_MERGED"));
    assert_eq!(merge(None).await.status(), 405);
    assert!(!script.took_request(MERGE));
    assert_eq!(merge(Some("k")).await.status(), 200);
    assert_eq!(script.take_request::<git::MergePullRequest>(MERGE).unwrap().permit, "");
    // Another pull request was merged with this key.
    script.respond(MERGE, &merged(3));
    assert_eq!(merge(Some("k")).await.status(), 405);
    script.fail(MERGE, refusal(Kind::PermissionDenied, "BAD_PERMIT"));
    assert_eq!(merge(Some("other")).await.status(), 405);
}

#[tokio::test]
async fn whether_a_pull_request_is_merged_is_a_status() {
    let case = case().await;
    assert_eq!(case.send("GET", "/pulls/2/merge", &Value::Null).await.0, 404);
    let ends = issue::PullRequest { is_merged: true, ..ends() };
    case.script.respond(GET, &issue::GetPullResponse { pull: pull(ends) });
    assert_eq!(case.send("GET", "/pulls/2/merge", &Value::Null).await.0, 204);
    let shown = case.send("GET", "/pulls/2/conflicts", &Value::Null).await.1;
    assert_eq!(shown, json!({"files": [], "total_count": 0}));
}

#[tokio::test]
async fn a_head_is_updated_unless_the_pull_request_is_done() {
    let case = case().await;
    case.script.respond(UPDATE, &git::UpdatePullHeadResponse { head_id: "c".repeat(40) });
    for (query, by_rebase) in [("", false), ("?style=merge", false), ("?style=rebase", true)] {
        let path = format!("/pulls/2/update{query}");
        assert_eq!(case.send("POST", &path, &Value::Null).await.0, 200, "{query}");
        let expected = git::UpdatePullHeadRequest {
            repository_id: 7,
            head_branch: "topic".into(),
            head_id: "a".repeat(40),
            base_repository_id: 7,
            base_branch: "main".into(),
            by_rebase,
            base_grant: String::new(),
        };
        case.check_request(UPDATE, expected);
    }
    for (kind, reason, expected) in [
        (Kind::FailedPrecondition, "NOTHING_TO_MERGE", 200),
        (Kind::FailedPrecondition, "MERGE_CONFLICT", 409),
        (Kind::Aborted, "BASE_MOVED", 409),
        (Kind::PermissionDenied, "BRANCH_PROTECTED", 403),
    ] {
        case.script.fail(UPDATE, refusal(kind, reason));
        assert_eq!(case.send("POST", "/pulls/2/update", &Value::Null).await.0, expected, "{reason}");
    }
    case.script.take_request::<git::UpdatePullHeadRequest>(UPDATE).unwrap();
    let closed = pull(ends()).map(|pull| issue::Issue { state: IssueState::Closed.into(), ..pull });
    let merged = issue::PullRequest { is_merged: true, is_head_deleted: true, ..ends() };
    for (found, settings, query, reason) in [
        (pull(ends()), settings(), "?style=squash", Value::Null),
        (pull(ends()), repo::PullSettings { allow_rebase_update: false, ..settings() }, "?style=rebase", Value::Null),
        (pull(merged), settings(), "", json!("ALREADY_MERGED")),
        (pull(issue::PullRequest { is_head_deleted: true, ..ends() }), settings(), "", json!("HEAD_DELETED")),
        (closed, settings(), "", json!("PULL_CLOSED")),
    ] {
        respond(&case.script, settings);
        case.script.respond(GET, &issue::GetPullResponse { pull: found });
        let (status, refused, _) = case.send("POST", &format!("/pulls/2/update{query}"), &Value::Null).await;
        assert_eq!((status, &refused["reason"]), (422, &reason), "{query}");
        assert!(!case.script.took_request(UPDATE));
    }
}

#[tokio::test]
async fn files_of_a_pull_request_have_addresses_at_its_head() {
    let case = case().await;
    let file = |path: &str, status: git::ChangeStatus| git::ChangedFile {
        status: status.into(),
        path: path.as_bytes().to_vec(),
        additions: 2,
        deletions: 1,
        ..Default::default()
    };
    let files = vec![file("a b", git::ChangeStatus::Changed), file("c", git::ChangeStatus::Added)];
    let changes = Some(git::Changes { files, file_count: 2, ..Default::default() });
    case.script.respond(COMPARE, &git::CompareResponse { changes, ..Default::default() });
    let (status, shown, link) = case.send("GET", "/pulls/2/files?limit=1", &Value::Null).await;
    let head = "a".repeat(40);
    let api = "http://git.example.com/api/v1/repos/Bob/demo";
    let expected = json!([{
        "filename": "a b", "status": "changed", "additions": 2, "deletions": 1, "changes": 3,
        "html_url": format!("http://git.example.com/Bob/demo/src/{head}/a%20b"),
        "contents_url": format!("{api}/contents/a%20b?ref={head}"),
        "raw_url": format!("{api}/raw/{head}/a%20b"),
    }]);
    assert_eq!((status, shown), (200, expected));
    assert!(link.contains("page=2>; rel=\"next\""), "{link}");
    let asked: git::CompareRequest = case.script.take_request(COMPARE).unwrap();
    assert_eq!((asked.base, asked.head, asked.is_direct), (b"refs/heads/main".to_vec(), head.into_bytes(), false));
    for (query, names) in
        [("skip-to=c", vec!["c"]), ("skip-to=x&whitespace=", vec!["a b", "c"]), ("page=2&whitespace=show-all", vec![])]
    {
        let shown = case.send("GET", &format!("/pulls/2/files?{query}"), &Value::Null).await.1;
        let found: Vec<_> = shown.as_array().unwrap().iter().map(|file| file["filename"].as_str().unwrap()).collect();
        assert_eq!(found, names, "{query}");
    }
    for (word, mode) in [
        ("show-all", git::Whitespace::ShowAll),
        ("ignore-all", git::Whitespace::IgnoreAll),
        ("ignore-change", git::Whitespace::IgnoreChange),
        ("ignore-eol", git::Whitespace::IgnoreEol),
    ] {
        case.send("GET", &format!("/pulls/2/files?whitespace={word}"), &Value::Null).await;
        assert_eq!(case.script.take_request::<git::CompareRequest>(COMPARE).unwrap().whitespace(), mode, "{word}");
    }
    for path in ["/pulls/2/files?whitespace=ignore", "/pulls/2.diff?whitespace=ignore"] {
        let (status, refused, _) = case.send("GET", path, &Value::Null).await;
        assert_eq!((status, &refused["errors"][0]["field"]), (422, &json!("whitespace")), "{path}");
    }
}

#[tokio::test]
async fn commits_of_a_pull_request_are_those_that_its_base_has_not() {
    let case = case().await;
    let compared =
        git::CompareResponse { commits: vec![commit('a'), commit('c')], total_count: 5, ..Default::default() };
    case.script.respond(COMPARE, &compared);
    let (status, shown, link) = case.send("GET", "/pulls/2/commits?page=2&limit=2&stat=false", &Value::Null).await;
    assert_eq!((status, &shown[1]["sha"]), (200, &json!("c".repeat(40))));
    assert_eq!(shown[0]["author"]["username"], "Bob");
    assert!(link.contains("page=3>; rel=\"next\""), "{link}");
    let asked: git::CompareRequest = case.script.take_request(COMPARE).unwrap();
    assert_eq!((asked.page, asked.page_size, asked.with_stats, asked.with_files), (2, 2, false, true));
    // The base branch is gone, or the pull request is done: the merge base is left.
    case.script.fail(COMPARE, refusal(Kind::NotFound, "REVISION_NOT_FOUND"));
    assert_eq!(case.send("GET", "/pulls/2/commits", &Value::Null).await.0, 404);
    assert_eq!(case.script.take_request::<git::CompareRequest>(COMPARE).unwrap().base, b"b".repeat(40));
    case.script.respond(COMPARE, &compared);
    let closed = pull(ends()).map(|pull| issue::Issue { state: IssueState::Closed.into(), ..pull });
    case.script.respond(GET, &issue::GetPullResponse { pull: closed });
    assert_eq!(case.send("GET", "/pulls/2/commits", &Value::Null).await.0, 200);
    assert_eq!(case.script.take_request::<git::CompareRequest>(COMPARE).unwrap().base, b"b".repeat(40));
}
