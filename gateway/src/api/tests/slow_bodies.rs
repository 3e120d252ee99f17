//! Requests whose bodies take long: the permission is asked for again before the write, because it may have been lost meanwhile.

use std::time::Duration;

use axum::body::{Body, Bytes};
use ferrite_kit::auth::AuthError;
use ferrite_proto::repo::access_service_client::AccessServiceClient;
use ferrite_proto::repo::{RepositoryRef, ResolveAccessRequest, ResolveAccessResponse};
use futures_util::{StreamExt as _, stream};
use http::Request;
use tower::ServiceExt as _;

use super::script::Script;
use super::{GOOD, TestGateway, repository};
use crate::router;
use crate::upstream::reauthorize::Reauthorizer;

const RESOLVE: &str = "AccessService/ResolveAccess";
const RECHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Every write whose permission is resolved before its body is read: method, path, body, and the RPC that carries it out.
const WRITES: [(&str, &str, &str, &str); 14] = [
    ("PUT", "contents/a", r#"{"message":"m","content":"YQ=="}"#, "ferrite.git.v1.GitService/PutContents"),
    ("DELETE", "contents/a", r#"{"message":"m"}"#, "ferrite.git.v1.GitService/DeleteContents"),
    (
        "POST",
        "contents",
        r#"{"message":"m","files":[{"operation":"delete","path":"a"}]}"#,
        "ferrite.git.v1.GitService/ChangeFiles",
    ),
    ("POST", "branch_protections", r#"{"pattern":"main"}"#, "ferrite.git.v1.ProtectionService/SetProtection"),
    ("PUT", "branch_protections/main", "{}", "ferrite.git.v1.ProtectionService/SetProtection"),
    (
        "POST",
        "hooks",
        r#"{"type":"native","config":{"url":"u"},"events":null,"active":true}"#,
        "ferrite.hook.v1.HookService/CreateHook",
    ),
    ("POST", "issues", r#"{"title":"t"}"#, "ferrite.issue.v1.IssueService/CreateIssue"),
    ("PATCH", "issues/1", r#"{"title":"t"}"#, "ferrite.issue.v1.IssueService/UpdateIssue"),
    ("POST", "issues/1/comments", r#"{"body":"b"}"#, "ferrite.issue.v1.CommentService/CreateComment"),
    ("PATCH", "issues/1/comments/2", r#"{"body":"b"}"#, "ferrite.issue.v1.CommentService/UpdateComment"),
    ("POST", "labels", r##"{"name":"n","color":"#ffffff"}"##, "ferrite.issue.v1.LabelService/CreateLabel"),
    ("PATCH", "labels/1", r#"{"name":"n"}"#, "ferrite.issue.v1.LabelService/UpdateLabel"),
    ("PUT", "issues/1/labels", r#"{"labels":[1]}"#, "ferrite.issue.v1.LabelService/ChangeIssueLabels"),
    ("POST", "milestones", r#"{"title":"t"}"#, "ferrite.issue.v1.MilestoneService/CreateMilestone"),
];

/// Sends a request whose body pauses in its middle until the permission was lost for a while, if `loses_it`.
async fn send_slowly(
    (gateway, script): (&TestGateway, &Script),
    (method, path, body): (&str, &str, &'static str),
    loses_it: bool,
) -> u16 {
    let (first, rest) = body.split_at(1);
    let lost = script.clone();
    let rest = stream::once(async move {
        if loses_it {
            lost.fail(RESOLVE, AuthError::RepositoryNotFound);
        }
        tokio::time::sleep(RECHECK_INTERVAL).await;
        Ok::<_, std::io::Error>(Bytes::from(rest))
    });
    let body = stream::once(std::future::ready(Ok(Bytes::from(first)))).chain(rest);
    let request = Request::builder().method(method).uri(format!("/api/v1/repos/bob/write/{path}"));
    let request = request.header("authorization", GOOD).body(Body::from_stream(Box::pin(body))).unwrap();
    router(&gateway.state).oneshot(request).await.unwrap().status().as_u16()
}

#[tokio::test]
async fn a_permission_that_was_lost_while_the_body_came_does_not_count() {
    let (mut gateway, script) = Script::gateway().await;
    let access = AccessServiceClient::new(gateway.state.clients.repo.clone());
    gateway.state.reauthorizer = Reauthorizer::new(access, RECHECK_INTERVAL, gateway.life.clone());
    for (method, path, body, rpc) in WRITES {
        let repository = Some(repository(Some(RepositoryRef::by_name("bob", "write"))).unwrap());
        script.respond(RESOLVE, &ResolveAccessResponse { repository, grant: "grant".into(), ..Default::default() });
        send_slowly((&gateway, &script), (method, path, body), false).await;
        assert!(script.took_request(rpc), "{method} {path}");
        // Not by its name, which may lead to another repository by now.
        let asked = script.take_request::<ResolveAccessRequest>(RESOLVE).unwrap().repository;
        assert_eq!(asked, Some(RepositoryRef::by_id(7)), "{method} {path}");
        let status = send_slowly((&gateway, &script), (method, path, body), true).await;
        let sent = script.took_request(rpc);
        assert_eq!((status, sent), (404, false), "{method} {path}");
    }
}
