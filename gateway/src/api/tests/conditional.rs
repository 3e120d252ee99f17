//! Writes with `If-Match` and `If-None-Match`: which precondition the service gets for which
//! header, and the response.

use axum::body::{Body, to_bytes};
use ferrite_proto::error::Kind;
use ferrite_proto::issue::{self, IssueState};
use ferrite_proto::repo;
use ferrite_rpc::auth::AuthError;
use ferrite_rpc::testing::failure;
use http::{HeaderMap, Request};
use tower::ServiceExt;

use super::tracker::{LABELS, MILESTONES, Tracker, label};
use super::{BAD, GOOD};
use crate::router;

const PATH: &str = "/repos/bob/demo/labels/5";
const BODY: &str = r#"{"name":"fault"}"#;
const VERSION: &str = "0123456789abcdef0123456789abcdef";

struct Case {
    tracker: Tracker,
    etag: String,
}

struct Received {
    status: u16,
    headers: HeaderMap,
    body: String,
}

impl Received {
    fn etag(&self) -> Option<&str> {
        self.headers.get("etag").map(|tag| tag.to_str().unwrap())
    }
}

fn get_label() -> String {
    format!("{LABELS}/GetLabel")
}

fn update_label() -> String {
    format!("{LABELS}/UpdateLabel")
}

impl Case {
    async fn new() -> Self {
        let tracker = Tracker::new().await;
        tracker.script.respond(&get_label(), &issue::GetLabelResponse { label: Some(label()) });
        tracker.script.respond(&update_label(), &issue::UpdateLabelResponse { label: Some(label()) });
        tracker.script.tell(&get_label(), VERSION);
        let (_, headers, _) = tracker.gateway.send("GET", PATH, Some(GOOD), "").await;
        tracker.script.take_request::<issue::GetLabelRequest>(&get_label());
        Self { tracker, etag: headers["etag"].to_str().unwrap().to_owned() }
    }

    async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Received {
        let mut request = Request::builder().method(method).uri(format!("/api/v1{path}")).header("authorization", GOOD);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let response = router(&self.tracker.gateway.state).oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.unwrap();
        let body = String::from_utf8(bytes.to_vec()).unwrap();
        Received { status: parts.status.as_u16(), headers: parts.headers, body }
    }

    async fn patch(&self, if_match: &str) -> Received {
        self.send("PATCH", PATH, &[("if-match", if_match)], BODY).await
    }

    fn precondition(&self) -> Option<String> {
        self.tracker.script.take_precondition(&update_label())
    }

    fn is_read(&self) -> bool {
        self.tracker.script.took_request(&get_label())
    }
}

#[tokio::test]
async fn a_write_carries_the_version_of_what_its_tag_shows() {
    let case = Case::new().await;
    let (tag, version) = (&case.etag, format!("version={VERSION}"));
    for (if_match, expected) in [
        (tag.clone(), version.as_str()),
        (format!("\"other\", {tag}"), version.as_str()),
        ("*".to_owned(), "exists"),
        ("\"other\"".to_owned(), "never"),
        (format!("W/{tag}"), "never"),
    ] {
        assert_eq!(case.patch(&if_match).await.status, 200, "{if_match}");
        assert_eq!(case.precondition().as_deref(), Some(expected), "{if_match}");
        assert!(case.is_read());
    }
}

#[tokio::test]
async fn a_write_has_none_of_the_tags_of_if_none_match() {
    let case = Case::new().await;
    let (tag, weak, version) = (case.etag.as_str(), format!("W/{}", case.etag), format!("version={VERSION}"));
    for (if_match, if_none_match, expected) in [
        (None, tag, Some("never")),
        (None, weak.as_str(), Some("never")),
        (None, "*", Some("never")),
        (None, "\"other\"", None),
        (Some(tag), tag, Some("never")),
        (Some(tag), "*", Some("never")),
        (Some(tag), "\"other\"", Some(version.as_str())),
        (Some("*"), "\"other\"", Some("exists")),
        (Some("\"other\""), "\"other\"", Some("never")),
    ] {
        let if_match = if_match.map(|value| ("if-match", value));
        let headers: Vec<_> = if_match.into_iter().chain([("if-none-match", if_none_match)]).collect();
        assert_eq!(case.send("PATCH", PATH, &headers, BODY).await.status, 200, "{headers:?}");
        assert_eq!(case.precondition().as_deref(), expected, "{headers:?}");
        assert!(case.is_read());
    }
}

#[tokio::test]
async fn what_is_not_read_is_created_or_has_none_of_the_tags() {
    let case = Case::new().await;
    case.tracker.script.fail(&get_label(), failure(Kind::NotFound, "LABEL_NOT_FOUND"));
    for (if_none_match, expected) in [("*", Some("absent")), (case.etag.as_str(), None)] {
        assert_eq!(case.send("PATCH", PATH, &[("if-none-match", if_none_match)], BODY).await.status, 200);
        assert_eq!(case.precondition().as_deref(), expected, "{if_none_match}");
    }
}

#[tokio::test]
async fn a_star_in_if_none_match_is_422_where_a_path_has_no_get() {
    let case = Case::new().await;
    let (rpc, path) = (format!("{LABELS}/ChangeIssueLabels"), "/repos/bob/demo/issues/2/labels/5");
    case.tracker.script.respond(&rpc, &issue::ChangeIssueLabelsResponse::default());
    assert_eq!(case.send("DELETE", path, &[("if-none-match", "\"x\"")], "").await.status, 204);
    assert_eq!(case.tracker.script.take_precondition(&rpc), None);
    case.tracker.script.fail(&rpc, failure(Kind::Aborted, "PRECONDITION_FAILED"));
    let refused = case.send("DELETE", path, &[("if-none-match", "*")], "").await;
    assert_eq!(refused.status, 422);
    assert!(refused.body.contains(r#""field":"If-None-Match","code":"invalid""#), "{}", refused.body);
    assert_eq!(case.tracker.script.take_precondition(&rpc).as_deref(), Some("never"));
}

#[tokio::test]
async fn a_request_without_a_condition_is_not_read_before() {
    let case = Case::new().await;
    // A label has no date, so this condition is ignored (RFC 9110, section 13.1.4).
    let dated = [("if-unmodified-since", "Thu, 01 Jan 1970 00:00:00 GMT"), ("x-ferrite-precondition", "never")];
    assert_eq!(case.send("PATCH", PATH, &dated, BODY).await.status, 200);
    assert_eq!((case.precondition(), case.is_read()), (None, false));
    assert_eq!(case.send("GET", PATH, &[("if-match", "\"other\"")], "").await.status, 200);
}

#[tokio::test]
async fn the_read_has_the_credentials_of_the_client_and_nothing_of_the_write() {
    let case = Case::new().await;
    let tag = case.etag.clone();
    let headers =
        [("if-match", tag.as_str()), ("if-none-match", "\"x\""), ("range", "bytes=0-1"), ("idempotency-key", "k")];
    assert_eq!(case.send("PATCH", PATH, &headers, BODY).await.status, 200);
    assert_eq!(case.precondition(), Some(format!("version={VERSION}")));
    assert!(case.tracker.script.had_idempotency_key(&update_label()));
    assert!(!case.tracker.script.had_idempotency_key(&get_label()));
    let unknown = Request::patch(format!("/api/v1{PATH}")).header("if-match", tag).body(Body::from(BODY)).unwrap();
    let response = router(&case.tracker.gateway.state).oneshot(unknown).await.unwrap();
    assert_eq!(response.status().as_u16(), 401);
}

#[tokio::test]
async fn a_refusal_of_the_service_is_412_with_the_tag_of_today() {
    let case = Case::new().await;
    case.tracker.script.fail(&update_label(), failure(Kind::Aborted, "PRECONDITION_FAILED"));
    let changed = issue::Label { name: "feature".into(), ..label() };
    case.tracker.script.respond(&get_label(), &issue::GetLabelResponse { label: Some(changed) });
    let today = case.send("GET", PATH, &[], "").await.etag().unwrap().to_owned();
    assert_ne!(today, case.etag);
    let refused = case.patch(&case.etag).await;
    assert_eq!((refused.status, refused.etag()), (412, Some(today.as_str())));
    let body: serde_json::Value = serde_json::from_str(&refused.body).unwrap();
    assert_eq!(body["url"], "http://git.example.com/docs/api#UpdateLabel");
    assert!(body["message"].is_string() && body.get("errors").is_none(), "{body}");
}

#[tokio::test]
async fn nothing_matches_what_the_client_cannot_read() {
    let case = Case::new().await;
    for error in [AuthError::RepositoryNotFound.into(), failure(Kind::NotFound, "LABEL_NOT_FOUND")] {
        case.tracker.script.fail(&get_label(), error);
        for if_match in [case.etag.as_str(), "*"] {
            assert_eq!(case.patch(if_match).await.status, 200);
            assert_eq!(case.precondition().as_deref(), Some("never"));
        }
    }
    case.tracker.script.fail(&update_label(), failure(Kind::Aborted, "PRECONDITION_FAILED"));
    let refused = case.patch("*").await;
    assert_eq!((refused.status, refused.etag()), (412, None));
}

#[tokio::test]
async fn a_failure_of_the_read_is_the_response() {
    let case = Case::new().await;
    case.tracker.script.fail(&get_label(), failure(Kind::Internal, "INTERNAL"));
    assert_eq!(case.patch(&case.etag).await.status, 500);
    assert!(!case.tracker.script.took_request(&update_label()));
}

#[tokio::test]
async fn a_service_that_tells_no_version_is_not_asked_to_write() {
    let case = Case::new().await;
    let milestone = issue::Milestone { id: 9, state: IssueState::Open.into(), ..Default::default() };
    let read = issue::GetMilestoneResponse { milestone: Some(milestone) };
    case.tracker.script.respond(&format!("{MILESTONES}/GetMilestone"), &read);
    let path = "/repos/bob/demo/milestones/9";
    let tag = case.send("GET", path, &[], "").await.etag().unwrap().to_owned();
    let stale = case.send("DELETE", path, &[("if-match", "\"other\"")], "").await;
    assert_eq!((stale.status, stale.etag()), (412, Some(tag.as_str())));
    assert_eq!(case.send("DELETE", path, &[("if-match", &tag)], "").await.status, 503);
    for if_none_match in [tag.as_str(), "*"] {
        let refused = case.send("DELETE", path, &[("if-none-match", if_none_match)], "").await;
        assert_eq!((refused.status, refused.etag()), (412, Some(tag.as_str())));
    }
    let delete = format!("{MILESTONES}/DeleteMilestone");
    assert!(!case.tracker.script.took_request(&delete));
    case.tracker.script.respond(&delete, &issue::DeleteMilestoneResponse::default());
    assert_eq!(case.send("DELETE", path, &[("if-none-match", "\"other\"")], "").await.status, 204);
}

#[tokio::test]
async fn nothing_matches_where_a_path_has_no_get() {
    let case = Case::new().await;
    let rpc = format!("{LABELS}/ChangeIssueLabels");
    case.tracker.script.respond(&rpc, &issue::ChangeIssueLabelsResponse::default());
    assert_eq!(case.send("DELETE", "/repos/bob/demo/issues/2/labels/5", &[("if-match", "*")], "").await.status, 204);
    assert_eq!(case.tracker.script.take_precondition(&rpc).as_deref(), Some("never"));
}

#[tokio::test]
async fn a_check_with_a_blank_request_has_no_precondition() {
    let case = Case::new().await;
    let rpc = format!("{LABELS}/ChangeIssueLabels");
    case.tracker.script.fail(&rpc, failure(Kind::InvalidArgument, "INVALID_REQUEST"));
    let path = "/repos/bob/demo/issues/2/labels";
    let list = issue::ListIssueLabelsResponse { labels: vec![label()] };
    case.tracker.script.respond(&format!("{LABELS}/ListIssueLabels"), &list);
    case.tracker.script.tell(&format!("{LABELS}/ListIssueLabels"), VERSION);
    assert_eq!(case.send("PUT", path, &[("if-match", "*")], r#"{"labels":"x"}"#).await.status, 422);
    assert!(case.tracker.script.took_request(&rpc));
    assert_eq!(case.tracker.script.take_precondition(&rpc), None);
}

#[tokio::test]
async fn a_post_has_no_conditions() {
    let case = Case::new().await;
    let (create, path, body) =
        (format!("{LABELS}/CreateLabel"), "/repos/bob/demo/labels", r##"{"name":"x","color":"#123456"}"##);
    case.tracker.script.respond(&create, &issue::CreateLabelResponse { label: Some(label()) });
    for (headers, fields) in [
        (&[("if-match", "*")][..], &["If-Match"][..]),
        (&[("if-match", case.etag.as_str())], &["If-Match"]),
        (&[("if-match", "malformed"), ("idempotency-key", "k")], &["If-Match"]),
        (&[("if-none-match", "*")], &["If-None-Match"]),
        (&[("if-none-match", "*"), ("if-match", "\"a\"")], &["If-Match", "If-None-Match"]),
        (&[("if-none-match", "malformed")], &["If-None-Match"]),
    ] {
        let refused = case.send("POST", path, headers, body).await;
        let told: serde_json::Value = serde_json::from_str(&refused.body).unwrap();
        let named: Vec<_> =
            told["errors"].as_array().unwrap().iter().map(|one| one["field"].as_str().unwrap()).collect();
        assert_eq!((refused.status, named.as_slice()), (422, fields), "{headers:?}");
        assert_eq!(told["url"], "http://git.example.com/docs/api#CreateLabel");
        assert!(!case.tracker.script.took_request(&create), "{headers:?}");
    }
    // Tags cannot match a new resource. The key of a rejected request can be reused.
    let tags = [("if-none-match", case.etag.as_str()), ("idempotency-key", "k")];
    assert_eq!(case.send("POST", path, &tags, body).await.status, 201);
    assert_eq!(case.tracker.script.take_precondition(&create), None);
}

#[tokio::test]
async fn conditions_of_every_post_are_refused_after_its_caller() {
    let case = Case::new().await;
    let (gateway, script) = (&case.tracker.gateway, &case.tracker.script);
    // Blank requests, which only check the caller.
    for rpc in [
        "IssueService/CreateIssue",
        "IssueService/UpdateIssue",
        "CommentService/CreateComment",
        "LabelService/ChangeIssueLabels",
        "PullService/CreatePull",
        "ReactionService/AddReaction",
        "ReviewService/CreateReview",
        "ReviewService/SubmitReview",
        "ReviewService/RequestReviews",
    ] {
        script.fail(&format!("ferrite.issue.v1.{rpc}"), failure(Kind::InvalidArgument, "INVALID_REQUEST"));
    }
    // The update of a head reads the pull request before.
    let pull = issue::PullRequest { head_repository_id: 1, head_branch: "topic".into(), ..Default::default() };
    let pull = issue::Issue { number: 1, pull_request: Some(pull), ..Default::default() };
    script.respond("ferrite.issue.v1.PullService/GetPull", &issue::GetPullResponse { pull: Some(pull) });
    script.respond("TransferService/GetTransfer", &repo::GetTransferResponse::default());
    script.respond("AccountService/ListAccessTokens", &repo::ListAccessTokensResponse::default());
    let send = async |path: &str, authorization: &str| {
        let request = Request::post(path).header("authorization", authorization).header("if-none-match", "*");
        let response = router(&gateway.state).oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        (parts.status.as_u16(), String::from_utf8(to_bytes(body, usize::MAX).await.unwrap().to_vec()).unwrap())
    };
    let filled = |path: &str| {
        let parts = path.split('/').map(|part| if part.starts_with('{') { "1" } else { part });
        parts.collect::<Vec<_>>().join("/")
    };
    let posts: Vec<_> = crate::api::routes().into_iter().filter(|route| route.method == "POST").collect();
    assert!(posts.len() > 30);
    for route in &posts {
        let path = filled(route.path);
        let good = if path.ends_with("/tokens") { "Basic YWRhOnNlY3JldA==" } else { GOOD };
        let (status, body) = send(&path, good).await;
        assert!(status == 422 && body.contains(r#""field":"If-None-Match""#), "{path}: {status} {body}");
        assert_eq!(send(&path, BAD).await.0, 401, "{path}");
    }
    for rpc in ["AccessService/ResolveAccess", "AccessService/CheckAccess", "TransferService/GetTransfer"] {
        script.fail(rpc, AuthError::RepositoryNotFound);
    }
    for route in posts.iter().filter(|route| route.path.contains("{owner}/{repo}")) {
        assert_eq!(send(&filled(route.path), GOOD).await.0, 404, "{}", route.path);
    }
}

#[tokio::test]
async fn a_malformed_header_is_422_and_names_it() {
    let case = Case::new().await;
    case.tracker.script.fail(&update_label(), failure(Kind::Aborted, "PRECONDITION_FAILED"));
    for malformed in ["", "x", "\"a", "*, \"a\""] {
        let refused = case.patch(malformed).await;
        assert_eq!((refused.status, refused.etag()), (422, None), "{malformed}");
        assert!(refused.body.contains(r#""field":"If-Match","code":"invalid""#), "{}", refused.body);
        assert!(refused.body.contains("/docs/api#UpdateLabel"), "{}", refused.body);
        assert_eq!(case.precondition().as_deref(), Some("never"), "{malformed}");
    }
    let both = case.send("PATCH", PATH, &[("if-match", "x"), ("if-none-match", "y")], BODY).await;
    let body: serde_json::Value = serde_json::from_str(&both.body).unwrap();
    let fields: Vec<_> = body["errors"].as_array().unwrap().iter().map(|one| one["field"].as_str().unwrap()).collect();
    assert_eq!((both.status, fields), (422, vec!["If-Match", "If-None-Match"]));
    assert!(!case.is_read());
}

#[tokio::test]
async fn a_malformed_header_is_found_after_what_else_is_wrong() {
    let case = Case::new().await;
    let malformed = [("if-match", "x")];
    let unknown = Request::patch(format!("/api/v1{PATH}")).header("if-match", "x").body(Body::from(BODY)).unwrap();
    let response = router(&case.tracker.gateway.state).oneshot(unknown).await.unwrap();
    assert_eq!(response.status().as_u16(), 401);
    // A stored response: the service returns it before it checks the precondition.
    let repeat = [("if-match", "x"), ("idempotency-key", "k")];
    assert_eq!(case.send("PATCH", PATH, &repeat, BODY).await.status, 200);
    for (error, status) in [
        (AuthError::RepositoryNotFound.into(), 404),
        (failure(Kind::PermissionDenied, "PERMISSION_DENIED"), 403),
        (failure(Kind::InvalidArgument, "INVALID_REQUEST"), 422),
    ] {
        case.tracker.script.fail(&update_label(), error);
        let refused = case.send("PATCH", PATH, &malformed, BODY).await;
        assert_eq!(refused.status, status);
        assert!(!refused.body.contains("If-Match"), "{}", refused.body);
    }
}
