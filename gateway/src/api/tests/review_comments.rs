//! Comments of reviews, and where their lines are now.

use ferrite_core::timestamp;
use ferrite_proto::error::Kind;
use ferrite_proto::repo::{self, RepositoryRef};
use ferrite_proto::{git, issue, operation};
use serde_json::{Value, json};

use super::git_data::{ACCESS, Case, refusal};
use super::tracker::{GET_USERS, shown_bob};

const ID: i64 = 1 << 41;
const LIST: &str = "/pulls/2/reviews/12/comments";

fn id(digit: char) -> String {
    digit.to_string().repeat(40)
}

/// A comment on the last lines of the head, which is `a`.
fn comment() -> issue::ReviewComment {
    issue::ReviewComment {
        id: ID,
        repository_id: 7,
        pull_number: 2,
        review_id: 12,
        user_id: 3,
        body: "Why?".into(),
        path: "src/a.rs".into(),
        line: 5,
        line_count: 2,
        commit_id: id('a'),
        line_commit_id: id('a'),
        diff_hunk: "@@ -1 +1 @@".into(),
        create_time: Some(timestamp(0)),
        update_time: Some(timestamp(0)),
        ..Default::default()
    }
}

/// A comment on a line of an earlier head.
fn moved(line: i32) -> issue::ReviewComment {
    issue::ReviewComment { line, line_count: 1, commit_id: id('c'), line_commit_id: id('c'), ..comment() }
}

/// A comment on a line of a merge base.
fn old(digit: char, line: i32) -> issue::ReviewComment {
    issue::ReviewComment { is_old_side: true, line, line_count: 1, line_commit_id: id(digit), ..comment() }
}

/// The JSON of [`comment`].
fn shown_comment() -> Value {
    let page = "http://git.example.com/Bob/demo/pulls/2";
    json!({
        "id": ID, "user": shown_bob(), "body": "Why?", "resolver": null, "pull_request_review_id": 12,
        "created_at": "1970-01-01T00:00:00Z", "updated_at": "1970-01-01T00:00:00Z", "path": "src/a.rs",
        "side": "new", "position": 5, "original_position": 5, "line_count": 2, "outdated": false,
        "commit_id": id('a'), "original_commit_id": id('a'), "diff_hunk": "@@ -1 +1 @@",
        "html_url": format!("{page}#issuecomment-{ID}"), "pull_request_url": page,
    })
}

fn path() -> String {
    format!("/pulls/comments/{ID}")
}

fn list_of(comments: Vec<issue::ReviewComment>) -> issue::ListReviewCommentsResponse {
    let (head_id, merge_base_id) = (id('a'), id('b'));
    issue::ListReviewCommentsResponse { comments, total_count: 7, head_id, merge_base_id, is_partial: false }
}

#[tokio::test]
async fn comments_of_the_head_and_the_merge_base_are_where_they_were() {
    let case = Case::new().await;
    case.script.respond(operation::LIST_REVIEW_COMMENTS, &list_of(vec![comment(), old('b', 4)]));
    let (status, shown, link) = case.send("GET", &format!("{LIST}?limit=2"), &Value::Null).await;
    assert_eq!((status, &shown[0]), (200, &shown_comment()));
    let line = ["side", "position", "original_position", "outdated"].map(|field| shown[1][field].clone());
    assert_eq!(json!(line), json!(["old", 0, 4, false]));
    assert!(link.contains("page=2>; rel=\"next\""), "{link}");
    let of_pull = issue::ListReviewCommentsRequest { repository_id: 7, number: 2, page: 1, ..Default::default() };
    let expected = issue::ListReviewCommentsRequest { review_id: 12, page_size: 2, ..of_pull };
    case.check_request(operation::LIST_REVIEW_COMMENTS, expected);
    assert!(!case.script.took_request(operation::FOLLOW_LINES));

    // Those of all reviews.
    let filtered = "?direction=desc&is_resolved=false&since=2026-01-02T01:04:05Z&limit=1000";
    let everything = issue::ListReviewCommentsRequest {
        page_size: 100,
        since: Some(timestamp(1_767_315_845_000_000)),
        is_resolved: Some(false),
        is_newest_first: true,
        ..of_pull
    };
    let plain = issue::ListReviewCommentsRequest { page_size: 50, ..of_pull };
    for (query, expected) in [("", plain), (filtered, everything)] {
        let (status, shown, _) = case.send("GET", &format!("/pulls/2/comments{query}"), &Value::Null).await;
        assert_eq!((status, &shown[0]), (200, &shown_comment()), "{query}");
        case.check_request(operation::LIST_REVIEW_COMMENTS, expected);
    }
    case.script.fail(operation::LIST_REVIEW_COMMENTS, refusal(Kind::InvalidArgument, "INVALID_REQUEST"));
    let (status, refused, _) = case.send("GET", "/pulls/2/comments?direction=up&since=x", &Value::Null).await;
    let fields = ["since", "direction"].map(|field| json!(field));
    assert_eq!(
        (status, [&refused["errors"][0]["field"], &refused["errors"][1]["field"]]),
        (422, [&fields[0], &fields[1]])
    );
}

#[tokio::test]
async fn lines_of_other_commits_are_followed_by_one_call() {
    let case = Case::new().await;
    let resolved = issue::ReviewComment { resolver_id: 9, ..moved(6) };
    let comments = vec![moved(5), comment(), resolved, old('b', 3), old('d', 4), old('d', 8)];
    case.script.respond(operation::LIST_REVIEW_COMMENTS, &list_of(comments));
    case.script.respond(operation::FOLLOW_LINES, &git::FollowLinesResponse { lines: vec![8, 0, 2, 0] });
    let (status, shown, _) = case.send("GET", LIST, &Value::Null).await;
    let field = |name: &str| json!(shown.as_array().unwrap().iter().map(|one| &one[name]).collect::<Vec<_>>());
    assert_eq!((status, field("position")), (200, json!([8, 5, 0, 0, 0, 0])));
    assert_eq!(field("original_position"), json!([5, 5, 6, 3, 4, 8]));
    assert_eq!(field("outdated"), json!([false, false, true, false, false, true]));
    assert_eq!(field("side"), json!(["new", "new", "new", "old", "old", "old"]));
    assert_eq!((&shown[0]["commit_id"], &shown[0]["original_commit_id"]), (&json!(id('a')), &json!(id('c'))));
    assert_eq!(shown[2]["resolver"]["username"], "ghost");
    let line = |commit_id, is_old_side, line| git::FollowedLines {
        commit_id,
        path: "src/a.rs".into(),
        is_old_side,
        line,
        line_count: 1,
    };
    let expected = git::FollowLinesRequest {
        repository_id: 7,
        head_id: id('a'),
        merge_base_id: id('b'),
        lines: vec![line(id('c'), false, 5), line(id('c'), false, 6), line(id('d'), true, 4), line(id('d'), true, 8)],
    };
    assert_eq!(case.script.take_request(operation::FOLLOW_LINES), Some(expected));
    // The name may lead to another repository by now.
    let asked: repo::ResolveAccessRequest = case.script.take_request(ACCESS).unwrap();
    assert_eq!((asked.repository, &*asked.operation), (Some(RepositoryRef::by_id(7)), operation::FOLLOW_LINES));
    let asked: repo::GetUsersRequest = case.script.take_request(GET_USERS).unwrap();
    assert_eq!(asked.user_ids, [3, 9]);
}

#[tokio::test]
async fn a_comment_is_read_changed_resolved_and_deleted() {
    let case = Case::new().await;
    let (repository_id, comment_id) = (7, ID);
    let (head_id, merge_base_id) = (id('a'), id('b'));
    let found = issue::GetReviewCommentResponse {
        comment: Some(comment()),
        head_id: head_id.clone(),
        merge_base_id: merge_base_id.clone(),
    };
    case.script.respond(operation::GET_REVIEW_COMMENT, &found);
    assert_eq!(case.send("GET", &path(), &Value::Null).await, (200, shown_comment(), String::new()));
    let expected = issue::GetReviewCommentRequest { repository_id, comment_id };
    case.check_request(operation::GET_REVIEW_COMMENT, expected);

    let changed = issue::UpdateReviewCommentResponse { comment: Some(comment()), head_id, merge_base_id };
    case.script.respond(operation::UPDATE_REVIEW_COMMENT, &changed);
    assert_eq!(case.send("PATCH", &path(), &json!({"body": "b"})).await, (200, shown_comment(), String::new()));
    let expected = issue::UpdateReviewCommentRequest { repository_id, comment_id, body: "b".into() };
    case.check_request(operation::UPDATE_REVIEW_COMMENT, expected);

    case.script.respond(operation::RESOLVE_REVIEW_COMMENT, &issue::ResolveReviewCommentResponse {});
    assert_eq!(case.send("POST", &format!("{}/resolve", path()), &Value::Null).await.0, 204);
    let expected = issue::ResolveReviewCommentRequest { repository_id, comment_id };
    case.check_request(operation::RESOLVE_REVIEW_COMMENT, expected);

    case.script.respond(operation::UNRESOLVE_REVIEW_COMMENT, &issue::UnresolveReviewCommentResponse {});
    assert_eq!(case.send("POST", &format!("{}/unresolve", path()), &Value::Null).await.0, 204);
    let expected = issue::UnresolveReviewCommentRequest { repository_id, comment_id };
    case.check_request(operation::UNRESOLVE_REVIEW_COMMENT, expected);

    case.script.respond(operation::DELETE_REVIEW_COMMENT, &issue::DeleteReviewCommentResponse {});
    assert_eq!(case.send("DELETE", &path(), &Value::Null).await.0, 204);
    let expected = issue::DeleteReviewCommentRequest { repository_id, comment_id };
    case.check_request(operation::DELETE_REVIEW_COMMENT, expected);
}

#[tokio::test]
async fn a_refusal_comes_before_a_mistake_in_a_comment() {
    let case = Case::new().await;
    let blank = issue::UpdateReviewCommentRequest { repository_id: 7, comment_id: ID, body: String::new() };
    for (kind, reason, expected) in [
        (Kind::PermissionDenied, "PERMISSION_REQUIRED", 403),
        (Kind::NotFound, "COMMENT_NOT_FOUND", 404),
        (Kind::InvalidArgument, "INVALID_REQUEST", 422),
    ] {
        case.script.fail(operation::UPDATE_REVIEW_COMMENT, refusal(kind, reason));
        for body in [json!({"body": 7}), json!({"body": ""}), json!({})] {
            assert_eq!(case.send("PATCH", &path(), &body).await.0, expected, "{reason} {body}");
            assert_eq!(case.script.take_request(operation::UPDATE_REVIEW_COMMENT), Some(blank.clone()));
        }
    }
}
