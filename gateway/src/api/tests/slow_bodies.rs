//! Slow requests: the permission is checked again before the write, because it may have been
//! revoked, and for the repository that the name meant at first, because the name may have moved.

use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use ferrite_proto::asset::{FILE_SHA256_HEADER, FILE_SIZE_HEADER};
use ferrite_proto::hook::ListEventsResponse;
use ferrite_proto::repo::access_service_client::AccessServiceClient;
use ferrite_proto::repo::{
    BeginAssetUploadResponse, CheckAccessResponse, CreateReleaseAssetRequest, GetRepositoryRequest,
    GetRepositoryResponse, RepositoryRef, ResolveAccessRequest, ResolveAccessResponse,
};
use ferrite_rpc::auth::AuthError;
use futures_util::{StreamExt as _, stream};
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use tower::ServiceExt as _;

use super::script::Script;
use super::{GOOD, TestGateway, repository};
use crate::router;
use crate::upstream::reauthorize::Reauthorizer;

const RESOLVE: &str = "AccessService/ResolveAccess";
const RECHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Longest pause of a body that waits for a check, and the polling interval.
const MAX_WAIT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Every write whose permission is resolved before its body is read: method, path, body, and its
/// RPC.
const WRITES: [(&str, &str, &str, &str); 21] = [
    ("PUT", "contents/a", r#"{"message":"m","content":"YQ=="}"#, "ferrite.git.v1.GitService/PutContents"),
    ("DELETE", "contents/a", r#"{"message":"m"}"#, "ferrite.git.v1.GitService/DeleteContents"),
    (
        "POST",
        "contents",
        r#"{"message":"m","files":[{"operation":"delete","path":"a"}]}"#,
        "ferrite.git.v1.GitService/ChangeFiles",
    ),
    ("POST", "branches", r#"{"new_branch_name":"a"}"#, "ferrite.git.v1.GitService/CreateBranch"),
    ("PATCH", "branches/a", r#"{"name":"b"}"#, "ferrite.git.v1.GitService/RenameBranch"),
    ("POST", "tags", r#"{"tag_name":"v1"}"#, "ferrite.git.v1.TagService/AddTag"),
    ("POST", "wiki/new", r#"{"title":"t"}"#, "ferrite.git.v1.WikiService/CreateWikiPage"),
    ("PATCH", "wiki/page/t", r#"{"title":"u"}"#, "ferrite.git.v1.WikiService/UpdateWikiPage"),
    ("POST", "branch_protections", r#"{"pattern":"main"}"#, "ferrite.git.v1.ProtectionService/SetProtection"),
    ("PUT", "branch_protections/main", "{}", "ferrite.git.v1.ProtectionService/SetProtection"),
    ("PATCH", "branch_protections/main", "{}", "ferrite.git.v1.ProtectionService/UpdateProtection"),
    ("POST", "statuses/main", r#"{"state":"success"}"#, "ferrite.git.v1.StatusService/CreateStatus"),
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

/// Writes of repo-svc that check the permission before they read a possibly long body. Their
/// messages have the repository in the same field.
const CHECKED_WRITES: [(&str, &str, &str, &str); 9] = [
    ("PATCH", "", r#"{"description":"d"}"#, "RepositoryService/UpdateRepository"),
    ("PATCH", "wiki", "{}", "RepositoryService/UpdateWiki"),
    ("PATCH", "issue-tracker", "{}", "RepositoryService/UpdateIssueTracker"),
    ("POST", "forks", "{}", "RepositoryService/ForkRepository"),
    ("PUT", "topics", r#"{"topics":["t"]}"#, "TopicService/SetTopics"),
    ("POST", "transfer", r#"{"new_owner":"eve"}"#, "TransferService/StartTransfer"),
    ("PUT", "collaborators/eve", "{}", "CollaboratorService/SetCollaborator"),
    ("POST", "keys", r#"{"title":"t","key":"k"}"#, "DeployKeyService/CreateDeployKey"),
    ("PATCH", "releases/1/assets/2", r#"{"name":"n"}"#, "ReleaseService/UpdateReleaseAsset"),
];

/// Writes of releases, which look up the repository first.
const RELEASE_WRITES: [(&str, &str, &str, &str); 2] = [
    ("POST", "releases", r#"{"tag_name":"v1"}"#, "ReleaseService/CreateRelease"),
    ("PATCH", "releases/1", r#"{"name":"n"}"#, "ReleaseService/UpdateRelease"),
];

/// Makes repo-svc find repository 7 under any name.
fn script_repository(script: &Script) {
    let repository = Some(repository(Some(RepositoryRef::by_name("bob", "write"))).unwrap());
    script.respond("RepositoryService/GetRepository", &GetRepositoryResponse { repository });
}

fn permit(script: &Script) {
    let repository = Some(repository(Some(RepositoryRef::by_name("bob", "write"))).unwrap());
    script.respond(RESOLVE, &ResolveAccessResponse { repository, grant: "grant".into(), ..Default::default() });
}

/// Sends a request whose body pauses in the middle, until the permission is revoked if `loses_it`.
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
    let path = if path.is_empty() { String::new() } else { format!("/{path}") };
    let request = Request::builder().method(method).uri(format!("/api/v1/repos/bob/write{path}"));
    let request = request.header("authorization", GOOD).body(Body::from_stream(Box::pin(body))).unwrap();
    router(&gateway.state).oneshot(request).await.unwrap().status().as_u16()
}

#[tokio::test]
async fn a_permission_that_was_lost_while_the_body_came_does_not_count() {
    let (mut gateway, script) = Script::gateway().await;
    let access = AccessServiceClient::new(gateway.state.clients.repo.clone());
    gateway.state.reauthorizer = Reauthorizer::new(access, RECHECK_INTERVAL, gateway.life.clone());
    for (method, path, body, rpc) in WRITES {
        permit(&script);
        send_slowly((&gateway, &script), (method, path, body), false).await;
        assert!(script.took_request(rpc), "{method} {path}");
        // Not by its name, which may have moved to another repository.
        let asked = script.take_request::<ResolveAccessRequest>(RESOLVE).unwrap().repository;
        assert_eq!(asked, Some(RepositoryRef::by_id(7)), "{method} {path}");
        let status = send_slowly((&gateway, &script), (method, path, body), true).await;
        let sent = script.took_request(rpc);
        assert_eq!((status, sent), (404, false), "{method} {path}");
    }
}

#[tokio::test]
async fn a_long_body_changes_the_repository_whose_permission_was_checked() {
    let (gateway, script) = Script::gateway().await;
    for repository_id in [7, 0] {
        script.respond("AccessService/CheckAccess", &CheckAccessResponse { repository_id, ..Default::default() });
        // A repo-svc of the previous version returns no id.
        let expected = if repository_id == 0 {
            RepositoryRef::by_name("bob", "write")
        } else {
            RepositoryRef::by_id(repository_id)
        };
        for (method, path, body, rpc) in CHECKED_WRITES {
            send_slowly((&gateway, &script), (method, path, body), false).await;
            let sent = script.take_request::<GetRepositoryRequest>(rpc);
            let sent = sent.unwrap_or_else(|| panic!("{method} {path} is not sent"));
            assert_eq!(sent.repository, Some(expected.clone()), "{method} {path}");
        }
    }
}

/// Sends a request of known length whose body pauses in the middle until repo-svc was asked for the
/// permission, or for a while.
async fn send_until_checked(
    (gateway, script): (&TestGateway, &Script),
    (method, path, body): (&str, &str, &'static str),
) {
    let (first, rest) = body.split_at(1);
    let script = script.clone();
    script.took_request("AccessService/CheckAccess");
    let rest = stream::once(async move {
        let begun = Instant::now();
        while !script.took_request("AccessService/CheckAccess") && begun.elapsed() < MAX_WAIT {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok::<_, std::io::Error>(Bytes::from(rest))
    });
    let sent = stream::once(std::future::ready(Ok(Bytes::from(first)))).chain(rest);
    let path = if path.is_empty() { String::new() } else { format!("/{path}") };
    let request = Request::builder().method(method).uri(format!("/api/v1/repos/bob/write{path}"));
    let request = request.header("authorization", GOOD).header("content-length", body.len());
    let request = request.body(Body::from_stream(Box::pin(sent))).unwrap();
    router(&gateway.state).oneshot(request).await.unwrap();
}

#[tokio::test]
async fn a_short_body_that_pauses_changes_the_repository_whose_permission_was_checked() {
    let (gateway, script) = Script::gateway().await;
    script.respond("AccessService/CheckAccess", &CheckAccessResponse { repository_id: 7, ..Default::default() });
    script_repository(&script);
    for (method, path, body, rpc) in CHECKED_WRITES.into_iter().chain(RELEASE_WRITES) {
        send_until_checked((&gateway, &script), (method, path, body)).await;
        let sent = script.take_request::<GetRepositoryRequest>(rpc);
        let sent = sent.unwrap_or_else(|| panic!("{method} {path} is not sent"));
        assert_eq!(sent.repository, Some(RepositoryRef::by_id(7)), "{method} {path}");
    }
}

#[tokio::test]
async fn a_short_body_that_is_there_costs_no_check() {
    let (gateway, script) = Script::gateway().await;
    script_repository(&script);
    for (method, path, body, rpc) in CHECKED_WRITES {
        let path = if path.is_empty() { "/repos/bob/write".into() } else { format!("/repos/bob/write/{path}") };
        gateway.send(method, &path, Some(GOOD), body).await;
        let sent = script.take_request::<GetRepositoryRequest>(rpc);
        let sent = sent.unwrap_or_else(|| panic!("{method} {path} is not sent"));
        assert_eq!(sent.repository, Some(RepositoryRef::by_name("bob", "write")), "{method} {path}");
        assert!(!script.took_request("AccessService/CheckAccess"), "{method} {path}");
    }
}

#[tokio::test]
async fn a_release_and_its_links_are_of_one_repository() {
    let (gateway, script) = Script::gateway().await;
    for (method, path, body, rpc) in RELEASE_WRITES {
        script_repository(&script);
        gateway.send(method, &format!("/repos/bob/write/{path}"), Some(GOOD), body).await;
        let looked_up = script.take_request::<GetRepositoryRequest>("RepositoryService/GetRepository").unwrap();
        assert_eq!(looked_up.repository, Some(RepositoryRef::by_name("bob", "write")), "{method} {path}");
        // By the id that the name had.
        let sent = script.take_request::<GetRepositoryRequest>(rpc).unwrap();
        assert_eq!(sent.repository, Some(RepositoryRef::by_id(7)), "{method} {path}");
        assert!(!script.took_request("AccessService/CheckAccess"), "{method} {path}");
        script.fail("RepositoryService/GetRepository", AuthError::RepositoryNotFound);
        let (status, _, _) = gateway.send(method, &format!("/repos/bob/write/{path}"), Some(GOOD), body).await;
        assert_eq!((status, script.took_request(rpc)), (404, false), "{method} {path}");
    }
}

#[tokio::test]
async fn a_file_goes_to_the_repository_that_the_path_named_when_its_upload_began() {
    let (gateway, script) = Script::gateway().await;
    permit(&script);
    let begun = BeginAssetUploadResponse { file_id: "f".into(), ..Default::default() };
    script.respond("ReleaseService/BeginAssetUpload", &begun);
    let headers = [(FILE_SIZE_HEADER, "4"), (FILE_SHA256_HEADER, "ab")];
    let headers = headers.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
    script.store("git/7/asset", HeaderMap::from_iter(headers));
    let request = Request::post("/api/v1/repos/bob/write/releases/1/assets?name=f").header("authorization", GOOD);
    let request = request.header("content-type", "application/octet-stream").body(Body::from("text")).unwrap();
    router(&gateway.state).oneshot(request).await.unwrap();
    let created = script.take_request::<CreateReleaseAssetRequest>("ReleaseService/CreateReleaseAsset").unwrap();
    assert_eq!((created.repository, created.size_bytes), (Some(RepositoryRef::by_id(7)), 4));
}

#[tokio::test]
async fn a_stream_of_events_stays_with_its_repository() {
    let (gateway, script) = Script::gateway().await;
    permit(&script);
    script.respond("ferrite.hook.v1.FeedService/ListEvents", &ListEventsResponse::default());
    let request = Request::get("/api/v1/repos/bob/write/events").header("authorization", GOOD);
    let request = request.header("accept", "text/event-stream").body(Body::empty()).unwrap();
    let mut pages = router(&gateway.state).oneshot(request).await.unwrap().into_body().into_data_stream();
    for _ in 0..3 {
        pages.next().await.unwrap().unwrap();
    }
    let asked = script.take_request::<ResolveAccessRequest>(RESOLVE).unwrap().repository;
    assert_eq!(asked, Some(RepositoryRef::by_id(7)));
}
