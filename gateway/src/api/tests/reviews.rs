//! Reviews of pull requests, and requests for them.

use ferrite_core::timestamp;
use ferrite_proto::error::Kind;
use ferrite_proto::issue::{self, ReviewState};
use ferrite_proto::{operation, repo};
use serde_json::{Value, json};

use super::git_data::{ACCESS, Case, refusal};
use super::tracker::{GET_USERS, shown_bob};

const REVIEWS: &str = "/pulls/2/reviews";
const REVIEW: &str = "/pulls/2/reviews/12";
const REVIEWERS: &str = "/pulls/2/requested_reviewers";

fn review() -> issue::Review {
    issue::Review {
        id: 12,
        repository_id: 7,
        pull_number: 2,
        user_id: 3,
        state: ReviewState::Approved.into(),
        body: "Well done.".into(),
        commit_id: "a".repeat(40),
        is_official: true,
        comment_count: 1,
        create_time: Some(timestamp(0)),
        submit_time: Some(timestamp(0)),
        update_time: Some(timestamp(0)),
        ..Default::default()
    }
}

/// The JSON of [`review`].
fn shown_review() -> Value {
    let page = "http://git.example.com/Bob/demo/pulls/2";
    json!({
        "id": 12, "user": shown_bob(), "team": null, "state": "APPROVED", "body": "Well done.",
        "commit_id": "a".repeat(40), "stale": false, "official": true, "dismissed": false, "comments_count": 1,
        "submitted_at": "1970-01-01T00:00:00Z", "updated_at": "1970-01-01T00:00:00Z",
        "html_url": format!("{page}#pullrequestreview-12"), "pull_request_url": page,
    })
}

fn requested() -> issue::Review {
    let team = issue::ReviewTeam { id: 5, name: "devs".into() };
    let state = ReviewState::Requested.into();
    issue::Review { id: 13, user_id: 0, team: Some(team), state, body: String::new(), submit_time: None, ..review() }
}

async fn case() -> Case {
    let case = Case::new().await;
    let script = &case.script;
    script.respond(operation::GET_REVIEW, &issue::GetReviewResponse { review: Some(review()) });
    script.respond(operation::CREATE_REVIEW, &issue::CreateReviewResponse { review: Some(review()) });
    script.respond(operation::SUBMIT_REVIEW, &issue::SubmitReviewResponse { review: Some(review()) });
    script.respond(operation::DELETE_REVIEW, &issue::DeleteReviewResponse {});
    script.respond(operation::DISMISS_REVIEW, &issue::DismissReviewResponse { review: Some(review()) });
    script.respond(operation::UNDISMISS_REVIEW, &issue::UndismissReviewResponse { review: Some(review()) });
    let reviews = vec![review(), requested()];
    script.respond(operation::REQUEST_REVIEWS, &issue::RequestReviewsResponse { reviews });
    script.respond(operation::REMOVE_REVIEW_REQUESTS, &issue::RemoveReviewRequestsResponse {});
    case
}

#[tokio::test]
async fn reviews_are_listed_with_their_users_and_teams() {
    let case = case().await;
    let rejection = issue::Review {
        user_id: 9,
        state: ReviewState::ChangesRequested.into(),
        is_stale: true,
        is_official: false,
        is_dismissed: true,
        ..review()
    };
    let reviews = vec![review(), requested(), rejection];
    case.script.respond(operation::LIST_REVIEWS, &issue::ListReviewsResponse { reviews, total_count: 7 });
    let (status, shown, link) = case.send("GET", "/pulls/2/reviews?limit=3&page=2", &Value::Null).await;
    assert_eq!((status, &shown[0]), (200, &shown_review()));
    assert_eq!((&shown[1]["user"], &shown[1]["team"]), (&Value::Null, &json!({"id": 5, "name": "devs"})));
    assert_eq!((&shown[1]["state"], &shown[1]["submitted_at"]), (&json!("REQUEST_REVIEW"), &Value::Null));
    assert_eq!((&shown[2]["state"], &shown[2]["user"]["username"]), (&json!("REQUEST_CHANGES"), &json!("ghost")));
    let flags = ["stale", "official", "dismissed"].map(|flag| shown[2][flag].clone());
    assert_eq!(flags, [true, false, true].map(Value::from));
    assert!(link.contains("page=3>; rel=\"next\""), "{link}");
    let expected = issue::ListReviewsRequest { repository_id: 7, number: 2, page: 2, page_size: 3 };
    case.check_request(operation::LIST_REVIEWS, expected);
    let asked: repo::GetUsersRequest = case.script.take_request(GET_USERS).unwrap();
    assert_eq!(asked.user_ids, [3, 9]);
}

#[tokio::test]
async fn a_review_is_what_its_body_says() {
    let case = case().await;
    let with = |state: ReviewState| issue::CreateReviewRequest {
        repository_id: 7,
        number: 2,
        state: state.into(),
        ..Default::default()
    };
    let line = |is_old_side, line, line_count| issue::NewReviewComment {
        path: "a.rs".into(),
        is_old_side,
        line,
        line_count,
        body: "Why?".into(),
    };
    let full = issue::CreateReviewRequest {
        body: "b".into(),
        commit_id: "b".repeat(40),
        // issue-svc refuses the last three.
        comments: vec![line(false, 3, 0), line(true, 5, 2), line(false, 0, 0), line(true, -4, 0), line(false, -1, -1)],
        ..with(ReviewState::Commented)
    };
    let comments = json!([
        {"path": "a.rs", "body": "Why?", "new_position": 3, "old_position": 0},
        {"path": "a.rs", "body": "Why?", "old_position": 5, "line_count": 2},
        {"path": "a.rs", "body": "Why?"},
        {"path": "a.rs", "body": "Why?", "old_position": -4},
        {"path": "a.rs", "body": "Why?", "new_position": 1_u64 << 40, "line_count": 1_u64 << 40},
    ]);
    for (body, expected) in [
        (Value::Null, with(ReviewState::Pending)),
        (json!({"event": ""}), with(ReviewState::Pending)),
        (json!({"event": "PENDING"}), with(ReviewState::Pending)),
        (json!({"event": "APPROVED"}), with(ReviewState::Approved)),
        (json!({"event": "APPROVE"}), with(ReviewState::Approved)),
        (json!({"event": "REQUEST_CHANGES"}), with(ReviewState::ChangesRequested)),
        (json!({"event": "COMMENT", "body": "b", "commit_id": "b".repeat(40), "comments": comments}), full),
    ] {
        assert_eq!(case.send("POST", REVIEWS, &body).await, (200, shown_review(), String::new()), "{body}");
        case.check_request(operation::CREATE_REVIEW, expected);
    }
}

#[tokio::test]
async fn a_review_is_read_submitted_dismissed_and_deleted() {
    let case = case().await;
    let (repository_id, number, review_id) = (7, 2, 12);
    let shown = || (200, shown_review(), String::new());
    assert_eq!(case.send("GET", REVIEW, &Value::Null).await, shown());
    case.check_request(operation::GET_REVIEW, issue::GetReviewRequest { repository_id, number, review_id });
    for (body, state, text) in [
        (json!({"event": "APPROVE"}), ReviewState::Approved, ""),
        (json!({"event": "COMMENT", "body": "b"}), ReviewState::Commented, "b"),
    ] {
        assert_eq!(case.send("POST", REVIEW, &body).await, shown(), "{body}");
        let (state, body) = (state.into(), text.into());
        let expected = issue::SubmitReviewRequest { repository_id, number, review_id, state, body };
        case.check_request(operation::SUBMIT_REVIEW, expected);
    }
    let path = format!("{REVIEW}/dismissals");
    for (body, message, with_priors) in
        [(json!({"message": "m", "priors": true}), "m", true), (json!({"message": "", "priors": null}), "", false)]
    {
        assert_eq!(case.send("POST", &path, &body).await, shown(), "{body}");
        let message = message.into();
        let expected = issue::DismissReviewRequest { repository_id, number, review_id, message, with_priors };
        case.check_request(operation::DISMISS_REVIEW, expected);
    }
    assert_eq!(case.send("POST", &format!("{REVIEW}/undismissals"), &Value::Null).await, shown());
    case.check_request(operation::UNDISMISS_REVIEW, issue::UndismissReviewRequest { repository_id, number, review_id });
    assert_eq!(case.send("DELETE", REVIEW, &Value::Null).await, (204, Value::Null, String::new()));
    case.check_request(operation::DELETE_REVIEW, issue::DeleteReviewRequest { repository_id, number, review_id });
}

#[tokio::test]
async fn users_and_teams_are_asked_for_reviews() {
    let case = case().await;
    let body = json!({"reviewers": ["bob"], "team_reviewers": ["devs"]});
    let (usernames, team_names) = (vec!["bob".to_owned()], vec!["devs".to_owned()]);
    let (status, shown, _) = case.send("POST", REVIEWERS, &body).await;
    assert_eq!((status, &shown[0], &shown[1]["team"]["name"]), (201, &shown_review(), &json!("devs")));
    let expected = issue::RequestReviewsRequest {
        repository_id: 7,
        number: 2,
        usernames: usernames.clone(),
        team_names: team_names.clone(),
    };
    case.check_request(operation::REQUEST_REVIEWS, expected);
    assert_eq!(case.send("DELETE", REVIEWERS, &body).await.0, 204);
    let expected = issue::RemoveReviewRequestsRequest { repository_id: 7, number: 2, usernames, team_names };
    case.check_request(operation::REMOVE_REVIEW_REQUESTS, expected);
}

#[tokio::test]
async fn mistakes_in_a_review_name_their_fields() {
    let case = case().await;
    let comment = |new: i64, old: i64| json!({"path": "a", "body": "b", "new_position": new, "old_position": old});
    let dismissals = format!("{REVIEW}/dismissals");
    for (method, path, body, fields) in [
        ("POST", REVIEWS, json!({"event": "LGTM", "body": 7}), json!(["event", "body"])),
        ("POST", REVIEWS, json!({"event": "REQUEST_REVIEW"}), json!(["event"])),
        (
            "POST",
            REVIEWS,
            json!({"comments": [comment(1, 1), comment(1, 0), comment(2, 3)]}),
            json!(["comments[0].old_position", "comments[2].old_position"]),
        ),
        (
            "POST",
            REVIEWS,
            json!({"comments": [{"new_position": "1"}]}),
            json!(["comments[0].path", "comments[0].body", "comments[0].new_position"]),
        ),
        ("POST", REVIEW, json!({"event": "PENDING"}), json!(["event"])),
        ("POST", REVIEW, json!({"body": "b"}), json!(["event"])),
        ("POST", &dismissals, json!({"message": 7, "priors": 1}), json!(["message", "priors"])),
        ("POST", REVIEWERS, json!({"reviewers": "eve"}), json!(["reviewers"])),
        ("DELETE", REVIEWERS, json!({"team_reviewers": [7]}), json!(["team_reviewers"])),
    ] {
        let (status, refused, _) = case.send(method, path, &body).await;
        let named: Vec<_> = refused["errors"].as_array().unwrap().iter().map(|error| &error["field"]).collect();
        assert_eq!((status, json!(named)), (422, fields), "{method} {path} {body}");
    }
}

#[tokio::test]
async fn who_may_not_review_learns_nothing_of_the_request() {
    let case = case().await;
    let blank = issue::CreateReviewRequest { repository_id: 7, number: 2, ..Default::default() };
    let ambiguous = json!({"comments": [{"path": "a", "body": "b", "new_position": 1, "old_position": 1}]});
    for (method, path, body, rpc) in [
        ("POST", REVIEWS, json!({"event": 7}), operation::CREATE_REVIEW),
        ("POST", REVIEWS, ambiguous, operation::CREATE_REVIEW),
        ("POST", REVIEW, json!({"event": 7}), operation::SUBMIT_REVIEW),
        ("POST", REVIEWERS, json!({"reviewers": 7}), operation::REQUEST_REVIEWS),
        ("DELETE", REVIEWERS, json!({"reviewers": 7}), operation::REMOVE_REVIEW_REQUESTS),
    ] {
        case.script.fail(rpc, refusal(Kind::PermissionDenied, "PERMISSION_REQUIRED"));
        let (status, refused, _) = case.send(method, path, &body).await;
        assert_eq!((status, &refused["reason"]), (403, &json!("PERMISSION_REQUIRED")), "{method} {path}");
    }
    assert_eq!(case.script.take_request(operation::CREATE_REVIEW), Some(blank));
    case.script.fail(ACCESS, refusal(Kind::PermissionDenied, "PERMISSION_REQUIRED"));
    assert_eq!(case.send("POST", &format!("{REVIEW}/dismissals"), &json!({"priors": 7})).await.0, 403);
    assert!(!case.script.took_request(operation::DISMISS_REVIEW));
}

#[tokio::test]
async fn a_refused_review_has_the_status_that_clients_expect() {
    let case = case().await;
    for (rpc, path, reason, kind, expected) in [
        (operation::CREATE_REVIEW, REVIEWS, "PULL_CLOSED", Kind::FailedPrecondition, 422),
        (operation::SUBMIT_REVIEW, REVIEW, "REVIEW_SUBMITTED", Kind::FailedPrecondition, 422),
        (operation::SUBMIT_REVIEW, REVIEW, "REVIEW_NOT_FOUND", Kind::NotFound, 404),
    ] {
        case.script.fail(rpc, refusal(kind, reason));
        let (status, refused, _) = case.send("POST", path, &json!({"event": "APPROVED"})).await;
        assert_eq!((status, &refused["reason"]), (expected, &json!(reason)));
    }
}
