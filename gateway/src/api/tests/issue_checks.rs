//! Errors in requests to the issue tracker name their field, and are reported after permission
//! errors.

use std::fmt::Debug;

use ferrite_proto::error::Kind;
use ferrite_proto::issue::{
    ChangeIssueLabelsRequest, CreateCommentRequest, CreateIssueRequest, ListCommentsRequest, ListIssuesRequest,
    UpdateCommentRequest, UpdateIssueRequest,
};
use prost::Message;

use super::tracker::{COMMENTS, ISSUES, LABELS, Tracker, failure};
use super::{BROKEN, GOOD};

/// An operation whose requests can be invalid, and the blank request that issue-svc gets then.
struct Case<Q> {
    method: &'static str,
    path: &'static str,
    rpc: String,
    blank: Q,
}

impl<Q: Message + Default + PartialEq + Debug + Clone> Case<Q> {
    async fn run(self) {
        let tracker = Tracker::new().await;
        let (mistake, body) = if self.method == "GET" { (422, "") } else { (400, BROKEN) };
        let status = async || tracker.send(self.method, self.path, body).await.0;
        // An empty message has the same encoding for every type.
        tracker.script.respond(&self.rpc, &ferrite_proto::repo::CheckAccessResponse::default());
        assert_eq!(status().await, mistake, "{}", self.path);
        assert_eq!(tracker.script.take_request(&self.rpc), Some(self.blank.clone()), "{}", self.path);
        for (kind, reason, expected) in [
            (Kind::NotFound, "ISSUES_DISABLED", 404),
            (Kind::NotFound, "REPOSITORY_NOT_FOUND", 404),
            (Kind::NotFound, "ISSUE_NOT_FOUND", 404),
            (Kind::PermissionDenied, "PERMISSION_REQUIRED", 403),
            (Kind::InvalidArgument, "INVALID_REQUEST", mistake),
            (Kind::Overloaded, "BUSY", 503),
        ] {
            tracker.script.fail(&self.rpc, failure(kind, reason));
            assert_eq!(status().await, expected, "{} {} {reason}", self.method, self.path);
        }
    }
}

#[tokio::test]
async fn a_refusal_comes_before_a_mistake_in_an_issue() {
    let blank = ListIssuesRequest { repository_id: 7, ..Default::default() };
    let (method, path) = ("GET", "/repos/bob/demo/issues?since=x");
    Case { method, path, rpc: format!("{ISSUES}/ListIssues"), blank }.run().await;
    let blank = CreateIssueRequest { repository_id: 7, ..Default::default() };
    let (method, path) = ("POST", "/repos/bob/demo/issues");
    Case { method, path, rpc: format!("{ISSUES}/CreateIssue"), blank }.run().await;
    let title = Some(String::new());
    let blank = UpdateIssueRequest { repository_id: 7, number: 2, title, ..Default::default() };
    let (method, path) = ("PATCH", "/repos/bob/demo/issues/2");
    Case { method, path, rpc: format!("{ISSUES}/UpdateIssue"), blank }.run().await;
    for (method, path) in [("POST", "/repos/bob/demo/issues/2/labels"), ("PUT", "/repos/bob/demo/issues/2/labels")] {
        let blank = ChangeIssueLabelsRequest { repository_id: 7, issue_number: 2, ..Default::default() };
        Case { method, path, rpc: format!("{LABELS}/ChangeIssueLabels"), blank }.run().await;
    }
}

#[tokio::test]
async fn a_refusal_comes_before_a_mistake_in_a_comment() {
    for (path, issue_number) in
        [("/repos/bob/demo/issues/2/comments?since=x", 2), ("/repos/bob/demo/issues/comments?since=x", 0)]
    {
        let blank = ListCommentsRequest { repository_id: 7, issue_number, ..Default::default() };
        Case { method: "GET", path, rpc: format!("{COMMENTS}/ListComments"), blank }.run().await;
    }
    let blank = CreateCommentRequest { repository_id: 7, issue_number: 2, ..Default::default() };
    let path = "/repos/bob/demo/issues/2/comments";
    Case { method: "POST", path, rpc: format!("{COMMENTS}/CreateComment"), blank }.run().await;
    for (path, issue_number) in [("/repos/bob/demo/issues/2/comments/4", 2), ("/repos/bob/demo/issues/comments/4", 0)] {
        let blank = UpdateCommentRequest { repository_id: 7, issue_number, comment_id: 4, ..Default::default() };
        Case { method: "PATCH", path, rpc: format!("{COMMENTS}/UpdateComment"), blank }.run().await;
    }
}

#[tokio::test]
async fn a_blank_request_has_no_idempotency_key() {
    let tracker = Tracker::new().await;
    let rpc = format!("{ISSUES}/UpdateIssue");
    tracker.script.respond(&rpc, &ferrite_proto::issue::UpdateIssueResponse::default());
    for (body, is_keyed) in [(BROKEN, false), ("{}", true)] {
        let request = http::Request::patch("/api/v1/repos/bob/demo/issues/2")
            .header("authorization", GOOD)
            .header("idempotency-key", "k")
            .body(axum::body::Body::from(body))
            .unwrap();
        tower::ServiceExt::oneshot(crate::router(&tracker.gateway.state), request).await.unwrap();
        assert_eq!(tracker.script.had_idempotency_key(&rpc), is_keyed, "{body}");
    }
}

#[tokio::test]
async fn every_mistake_names_its_field() {
    let tracker = Tracker::new().await;
    // From blank requests.
    for rpc in ["IssueService/ListIssues", "IssueService/CreateIssue", "IssueService/UpdateIssue"]
        .into_iter()
        .chain(["CommentService/ListComments", "CommentService/CreateComment", "CommentService/UpdateComment"])
        .chain(["LabelService/ChangeIssueLabels"])
    {
        tracker
            .script
            .respond(&format!("ferrite.issue.v1.{rpc}"), &ferrite_proto::repo::CheckAccessResponse::default());
    }
    let long = format!(r#"{{"title":"t","body":"{}"}}"#, "x".repeat((1 << 20) + 1));
    for (method, path, body, field, code) in [
        ("GET", "issues?sort=x", "", "sort", "unknown"),
        ("GET", "issues?direction=up", "", "direction", "unknown"),
        ("GET", "issues?type=Issues", "", "type", "unknown"),
        ("GET", "issues?since=2026-01-02", "", "since", "invalid"),
        ("GET", "issues/2/comments?since=yesterday", "", "since", "invalid"),
        ("POST", "issues", r#"{"closed":7}"#, "title", "required"),
        ("POST", "issues", r#"{"title":"","closed":7}"#, "title", "required"),
        ("POST", "issues", r#"{"title":"t","labels":["bug"]}"#, "labels", "type"),
        ("POST", "issues", r#"{"title":"t","milestone":"v1"}"#, "milestone", "type"),
        ("POST", "issues", long.as_str(), "body", "too_long"),
        ("PATCH", "issues/2", r#"{"state":"shut"}"#, "state", "unknown"),
        ("PATCH", "issues/2", r#"{"state":1}"#, "state", "type"),
        ("PATCH", "issues/2", long.as_str(), "body", "too_long"),
        ("POST", "issues/2/comments", "{}", "body", "required"),
        ("POST", "issues/2/comments", r#"{"body":""}"#, "body", "required"),
        ("PATCH", "issues/2/comments/4", r#"{"body":null}"#, "body", "required"),
        ("PATCH", "issues/comments/4", r#"{"body":[]}"#, "body", "type"),
        ("PUT", "issues/2/labels", r#"{"labels":[{"id":5}]}"#, "labels", "type"),
        ("POST", "issues/2/labels", "[5.5]", "labels", "type"),
        ("POST", "issues/2/labels", r#"["a\u0000"]"#, "labels", "invalid"),
        ("POST", "issues/2/labels", "7", "$", "type"),
        ("POST", "labels", r#"{"color":7}"#, "name", "required"),
        ("PATCH", "labels/5", r#"{"color":7}"#, "color", "type"),
        ("POST", "milestones", "{}", "title", "required"),
        ("POST", "milestones", r#"{"title":"t","due_on":"2026-01-02"}"#, "due_on", "invalid"),
        ("PATCH", "milestones/9", r#"{"due_on":"soon"}"#, "due_on", "invalid"),
        ("PATCH", "milestones/9", r#"{"state":"done"}"#, "state", "unknown"),
        ("PATCH", "issue-tracker", r#"{"tracker_issue_style":"roman"}"#, "tracker_issue_style", "unknown"),
        ("PATCH", "issue-tracker", r#"{"tracker_issue_style":""}"#, "tracker_issue_style", "unknown"),
        ("PATCH", "issue-tracker", r#"{"enable_issues":"no"}"#, "enable_issues", "type"),
    ] {
        let (status, shown) = tracker.send(method, &format!("/repos/bob/demo/{path}"), body).await;
        let error = &shown["errors"][0];
        assert_eq!((status, &error["field"], &error["code"]), (422, &field.into(), &code.into()), "{path}: {shown}");
    }
    let (_, shown) = tracker.send("GET", "/repos/bob/demo/issues?sort=x&since=y&type=z", "").await;
    assert_eq!(shown["errors"].as_array().unwrap().len(), 3, "all mistakes are reported together");
}

#[tokio::test]
async fn texts_may_have_eight_mebibytes_of_json() {
    let tracker = Tracker::new().await;
    let rpc = format!("{ISSUES}/CreateIssue");
    tracker.script.respond(&rpc, &ferrite_proto::issue::CreateIssueResponse::default());
    let escaped = format!(r#"{{"title":"t","body":"{}"}}"#, "\\u0001".repeat(1 << 20));
    tracker.send("POST", "/repos/bob/demo/issues", &escaped).await;
    let request: CreateIssueRequest = tracker.script.take_request(&rpc).unwrap();
    assert_eq!((request.title.as_str(), request.body.len()), ("t", 1 << 20));
    let over = format!(r#"{{"title":"t","body":"{}"}}"#, "x".repeat(8 << 20));
    assert_eq!(tracker.send("POST", "/repos/bob/demo/issues", &over).await.0, 413);
}

#[tokio::test]
async fn reasons_of_issue_svc_have_their_statuses() {
    let tracker = Tracker::new().await;
    let rpc = format!("{LABELS}/CreateLabel");
    for (kind, reason, status) in [
        (Kind::AlreadyExists, "LABEL_ALREADY_EXISTS", 422),
        (Kind::FailedPrecondition, "TOO_MANY_LABELS", 422),
        (Kind::FailedPrecondition, "TOO_MANY_MILESTONES", 422),
        (Kind::NotFound, "LABEL_NOT_FOUND", 404),
        (Kind::NotFound, "MILESTONE_NOT_FOUND", 404),
    ] {
        tracker.script.fail(&rpc, failure(kind, reason));
        let body = r##"{"name":"bug","color":"#ffffff"}"##;
        assert_eq!(tracker.send("POST", "/repos/bob/demo/labels", body).await.0, status, "{reason}");
    }
}
