//! Tests the payloads of pull requests and their reviews.

use ferrite_proto::events::PullReviewed;
use ferrite_proto::issue::ReviewState;

use super::*;

fn pull_payload(updated: &IssueUpdated, head: Option<&repo::Repository>) -> Value {
    let accounts = accounts();
    let context = context(&recorded::json("native-push"), 2, &accounts);
    serde_json::from_str(&pull_request(&context, updated, head, &links()).unwrap()).unwrap()
}

#[test]
fn a_pull_request_has_both_ends_and_what_was_before() {
    let updated = |action: IssueAction, issue| IssueUpdated {
        action: action.into(),
        issue: Some(issue),
        user_id: 2,
        ..IssueUpdated::default()
    };
    let head = repo::Repository {
        id: 17,
        owner: Some(user(3, "carol", "")),
        permission: repo::Permission::Unspecified.into(),
        ..hooked(&recorded::json("native-push"))
    };
    let opened = pull_payload(&updated(IssueAction::Opened, pull(issue::PullRequest::default())), Some(&head));
    assert_eq!((&opened["action"], &opened["number"]), (&json!("opened"), &json!(1)));
    let shown = &opened["pull_request"];
    assert_eq!(
        (&shown["title"], &shown["user"]["login"], &shown["merged"]),
        (&json!("Fix it"), &json!("bob"), &json!(false))
    );
    assert_eq!((&shown["head"]["ref"], &shown["head"]["sha"]), (&json!("topic"), &json!(SECOND)));
    assert_eq!((&shown["base"]["ref"], &shown["base"]["repo"]["full_name"]), (&json!("master"), &json!("bob/hooked")));
    assert_eq!(shown["head"]["repo"]["full_name"], "carol/hooked");
    assert_eq!((&opened["repository"]["id"], &opened["sender"]["id"]), (&json!(16), &json!(2)));
    assert_eq!((opened.get("changes"), opened.get("commit_id"), opened.get("truncated")), (None, None, None));
    for field in ["requested_reviewer", "requested_team", "review"] {
        assert_eq!(opened.get(field), Some(&json!(null)), "{field}");
    }
    for side in ["head", "base"] {
        assert_eq!(shown[side]["repo"].get("permissions"), opened["repository"].get("permissions"), "{side}");
    }

    let hidden = pull_payload(&updated(IssueAction::Synchronized, pull(issue::PullRequest::default())), None);
    assert_eq!((&hidden["action"], &hidden["commit_id"]), (&json!("synchronized"), &json!(SECOND)));
    let shown = &hidden["pull_request"]["head"];
    assert_eq!((&shown["repo"], &shown["repo_id"]), (&json!(null), &json!(17)));

    let mut own = pull(issue::PullRequest::default());
    own.pull_request.as_mut().unwrap().head_repository_id = own.repository_id;
    let shown = pull_payload(&updated(IssueAction::Reopened, own), None);
    assert_eq!(shown["pull_request"]["head"]["repo"]["id"], 16, "the same repository");

    let edited = IssueUpdated {
        old_title: Some("old".into()),
        old_base_branch: Some("dev".into()),
        ..updated(IssueAction::Edited, pull(issue::PullRequest::default()))
    };
    let changes = &pull_payload(&edited, None)["changes"];
    assert_eq!(*changes, json!({"title": {"from": "old"}, "ref": {"from": "dev"}}));

    let due_time = Some(at("2030-03-01T00:00:00Z"));
    let dated = issue::Issue { due_time, ..pull(issue::PullRequest::default()) };
    let dated = pull_payload(&updated(IssueAction::Edited, dated), None);
    assert_eq!((&dated["action"], dated.get("changes")), (&json!("edited"), None));
    assert_eq!(dated["pull_request"]["due_date"], "2030-03-01T00:00:00Z");

    let merged = issue::PullRequest {
        is_merged: true,
        merge_time: Some(at("2026-11-20T12:20:40Z")),
        merge_commit_id: FIRST.into(),
        merger_id: 3,
        ..issue::PullRequest::default()
    };
    let closed = issue::Issue { state: IssueState::Closed.into(), ..pull(merged) };
    let shown = &pull_payload(&updated(IssueAction::Closed, closed), None)["pull_request"];
    assert_eq!((&shown["state"], &shown["merged"]), (&json!("closed"), &json!(true)));
    assert_eq!((&shown["merge_commit_sha"], &shown["merged_by"]["login"]), (&json!(FIRST), &json!("carol")));
}

#[test]
fn a_request_for_a_review_names_the_user_or_the_team() {
    let requested = |action: IssueAction, reviewer_id, reviewing_team| {
        let issue = Some(pull(issue::PullRequest::default()));
        let updated = IssueUpdated { action: action.into(), issue, reviewer_id, reviewing_team, ..Default::default() };
        pull_payload(&updated, None)
    };
    let of_user = requested(IssueAction::ReviewRequested, 3, None);
    assert_eq!(
        (&of_user["action"], &of_user["requested_reviewer"]["login"], &of_user["requested_team"]),
        (&json!("review_requested"), &json!("carol"), &json!(null))
    );
    let team = issue::ReviewTeam { id: 9, name: "core".into() };
    let of_team = requested(IssueAction::ReviewRequestRemoved, 0, Some(team));
    assert_eq!(
        (&of_team["action"], &of_team["requested_reviewer"], &of_team["requested_team"]),
        (&json!("review_request_removed"), &json!(null), &json!({"id": 9, "name": "core"}))
    );
}

#[test]
fn a_review_has_its_text_and_its_commit() {
    let accounts = accounts();
    let context = context(&recorded::json("native-push"), 3, &accounts);
    let payload = |state: ReviewState, body: &str| {
        let review = issue::Review {
            id: 12,
            state: state.into(),
            body: body.into(),
            commit_id: FIRST.into(),
            ..Default::default()
        };
        let pull = Some(pull(issue::PullRequest::default()));
        let reviewed = PullReviewed { pull, review: Some(review), is_deleted: false };
        pull_review(&context, &reviewed, None, &links())
    };
    for (state, r#type) in [
        (ReviewState::Approved, "pull_request_review_approved"),
        (ReviewState::ChangesRequested, "pull_request_review_rejected"),
        (ReviewState::Commented, "pull_request_review_comment"),
    ] {
        let review: Value = serde_json::from_str(&payload(state, "Good").unwrap()).unwrap();
        assert_eq!(review["review"], json!({"id": 12, "type": r#type, "content": "Good"}));
        assert_eq!((&review["action"], &review["number"]), (&json!("reviewed"), &json!(1)));
        assert_eq!((&review["commit_id"], &review["requested_reviewer"]), (&json!(FIRST), &json!(null)));
        assert_eq!((&review["sender"]["login"], &review["pull_request"]["number"]), (&json!("carol"), &json!(1)));
        assert_eq!(review["pull_request"]["head"]["repo"], json!(null));
        assert_eq!((&review["repository"]["id"], review.get("truncated")), (&json!(16), None));
    }
    assert!(payload(ReviewState::Pending, "Good").is_err());
    let long = payload(ReviewState::Commented, &"\u{1}".repeat(1024 * 1024)).unwrap();
    assert!(json_text(&long).len() <= MAX_PAYLOAD_BYTES);
    let long: Value = serde_json::from_str(&long).unwrap();
    assert_eq!(long["truncated"], true);
}
