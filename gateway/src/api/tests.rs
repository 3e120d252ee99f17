//! The order of errors and the number of upstream calls, against a fake repo-svc on a real socket
//! with one token and a few repositories.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use ferrite_core::net::Address;
use ferrite_core::{Lifecycle, timestamp};
use ferrite_listener::{ListenerOptions, serve};
use ferrite_proto::metadata::AUTHORIZATION;
use ferrite_proto::operation::{
    CHANGE_FILES, CREATE_CONTENTS, CREATE_HOOK, DELETE_CONTENTS, DELETE_HOOK, DELETE_PROTECTION, GET_HOOK,
    GET_PROTECTION, LIST_HOOKS, LIST_PROTECTIONS, PUT_CONTENTS, SET_PROTECTION, UPDATE_HOOK,
};
use ferrite_proto::repo::access_service_server::{AccessService, AccessServiceServer};
use ferrite_proto::repo::repository_service_server::RepositoryServiceServer;
use ferrite_proto::repo::{self, Permission, repository_ref};
use ferrite_rpc::auth::AuthError;
use ferrite_rpc::grpc::channel;
use http::{HeaderMap, Request};
use tonic::{Response, Status};
use tower::ServiceExt;

use crate::router;
use crate::state::AppState;
use crate::tests::{git_credentials, unreachable_services};
use crate::upstream::git_client::GitHttpClient;

mod access_tokens;
mod accounts;
mod activities;
mod archives;
mod avatars;
mod bodies;
mod comments;
mod conditional;
mod contents;
mod deliveries;
mod fake_repositories;
mod git;
mod git_data;
mod git_refs;
mod history;
mod hooks;
mod imports;
mod issue_checks;
mod issues;
mod labels;
mod markdown;
mod merges;
mod mirrors;
mod operations;
mod organizations;
mod protections;
mod pulls;
mod quotas;
mod raw;
mod reactions;
mod repositories;
mod reverts;
mod review_comments;
mod reviews;
mod script;
mod slow_bodies;
mod stores;
mod team_units;
mod tokens;
mod tracker;
mod unset_fields;
mod wikis;

const GOOD: &str = "token good";
const BAD: &str = "token bad";

/// Accepts the token `good`, has one repository per level, named after it, and counts the calls.
#[derive(Clone, Default)]
struct FakeRepoService(Arc<AtomicUsize>);

impl FakeRepoService {
    fn record<T>(&self, request: &tonic::Request<T>) -> Result<(), Status> {
        self.0.fetch_add(1, Ordering::SeqCst);
        match request.metadata().get(AUTHORIZATION) {
            Some(value) if value != "Bearer good" => Err(AuthError::BadCredentials.into()),
            _ => Ok(()),
        }
    }
}

fn repository(reference: Option<repo::RepositoryRef>) -> Result<repo::Repository, Status> {
    let Some(repository_ref::By::Name(name)) = reference.and_then(|reference| reference.by) else {
        return Err(Status::invalid_argument("by name only"));
    };
    let permission = match name.name.as_str() {
        "read" => Permission::Read,
        "write" => Permission::Write,
        "admin" => Permission::Admin,
        _ => return Err(AuthError::RepositoryNotFound.into()),
    };
    Ok(repo::Repository {
        id: 7,
        owner: Some(repo::User { id: 1, username: name.owner, email: "bob@example.com".into(), ..Default::default() }),
        name: name.name,
        permission: permission.into(),
        create_time: Some(timestamp(0)),
        update_time: Some(timestamp(0)),
        ..Default::default()
    })
}

type RpcResult<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl AccessService for FakeRepoService {
    async fn authenticate(
        &self,
        request: tonic::Request<repo::AuthenticateRequest>,
    ) -> RpcResult<repo::AuthenticateResponse> {
        self.record(&request)?;
        if request.get_ref().token != "good" {
            return Err(AuthError::BadCredentials.into());
        }
        Ok(Response::new(repo::AuthenticateResponse { identity: Some(repo::Identity::default()) }))
    }

    async fn resolve_access(
        &self,
        request: tonic::Request<repo::ResolveAccessRequest>,
    ) -> RpcResult<repo::ResolveAccessResponse> {
        self.record(&request)?;
        let request = request.into_inner();
        let repository = repository(request.repository)?;
        let needed = match request.operation.as_str() {
            CREATE_CONTENTS | PUT_CONTENTS | DELETE_CONTENTS | CHANGE_FILES => ferrite_proto::Permission::Write,
            LIST_HOOKS | CREATE_HOOK | GET_HOOK | UPDATE_HOOK | DELETE_HOOK | LIST_PROTECTIONS | GET_PROTECTION
            | SET_PROTECTION | DELETE_PROTECTION => ferrite_proto::Permission::Admin,
            _ => ferrite_proto::Permission::Read,
        };
        if ferrite_proto::Permission::from(repository.permission()) < needed {
            return Err(AuthError::PermissionRequired { needed }.into());
        }
        let (repository, grant) = (Some(repository), "grant".into());
        Ok(Response::new(repo::ResolveAccessResponse { repository, grant, stored_id: 7, ..Default::default() }))
    }

    async fn reauthorize_access(
        &self,
        request: tonic::Request<repo::ReauthorizeAccessRequest>,
    ) -> RpcResult<repo::ReauthorizeAccessResponse> {
        self.record(&request)?;
        Ok(Response::new(repo::ReauthorizeAccessResponse {}))
    }

    async fn resolve_feed_access(
        &self,
        _: tonic::Request<repo::ResolveFeedAccessRequest>,
    ) -> RpcResult<repo::ResolveFeedAccessResponse> {
        Err(Status::unimplemented("for hook-svc"))
    }

    async fn resolve_activity_access(
        &self,
        _: tonic::Request<repo::ResolveActivityAccessRequest>,
    ) -> RpcResult<repo::ResolveActivityAccessResponse> {
        Err(Status::unimplemented("for hook-svc"))
    }

    async fn check_access(
        &self,
        request: tonic::Request<repo::CheckAccessRequest>,
    ) -> RpcResult<repo::CheckAccessResponse> {
        self.record(&request)?;
        if request.get_ref().operation.starts_with("ferrite.repo.v1.AdministrationService/") {
            return Err(AuthError::AdminRequired.into());
        }
        Ok(Response::new(repo::CheckAccessResponse::default()))
    }

    async fn describe_repositories(
        &self,
        request: tonic::Request<repo::DescribeRepositoriesRequest>,
    ) -> RpcResult<repo::DescribeRepositoriesResponse> {
        self.record(&request)?;
        Err(Status::unimplemented("for other services"))
    }

    async fn check_pull_source(
        &self,
        request: tonic::Request<repo::CheckPullSourceRequest>,
    ) -> RpcResult<repo::CheckPullSourceResponse> {
        self.record(&request)?;
        Err(Status::unimplemented("for issue-svc"))
    }

    async fn renew_access(
        &self,
        request: tonic::Request<repo::RenewAccessRequest>,
    ) -> RpcResult<repo::RenewAccessResponse> {
        self.record(&request)?;
        Err(Status::unimplemented("for issue-svc"))
    }

    async fn describe_reviewers(
        &self,
        request: tonic::Request<repo::DescribeReviewersRequest>,
    ) -> RpcResult<repo::DescribeReviewersResponse> {
        self.record(&request)?;
        Err(Status::unimplemented("for issue-svc"))
    }

    async fn resolve_issue_access(
        &self,
        request: tonic::Request<repo::ResolveIssueAccessRequest>,
    ) -> RpcResult<repo::ResolveIssueAccessResponse> {
        self.record(&request)?;
        Err(Status::unimplemented("for other services"))
    }

    async fn resolve_key(
        &self,
        request: tonic::Request<repo::ResolveKeyRequest>,
    ) -> RpcResult<repo::ResolveKeyResponse> {
        self.record(&request)?;
        Err(AuthError::BadCredentials.into())
    }
}

struct TestGateway {
    state: AppState,
    life: Lifecycle,
    socket: PathBuf,
}

impl Drop for TestGateway {
    fn drop(&mut self) {
        self.life.stop();
        let _ = std::fs::remove_file(&self.socket);
    }
}

impl TestGateway {
    async fn of(services: axum::Router) -> Self {
        let socket = std::env::temp_dir().join(format!("ferrite-{}.sock", uuid::Uuid::new_v4()));
        let address = Address::Unix(socket.clone());
        let life = Lifecycle::new(Duration::from_millis(100));
        life.spawn(
            "fake services",
            serve(address.bind().await.unwrap(), services, ListenerOptions::default(), life.clone()),
        );
        let mut state = unreachable_services();
        state.clients.repo = channel(&address, None);
        state.git_client = GitHttpClient::new(address, git_credentials());
        Self { state, life, socket }
    }

    async fn new() -> Self {
        Self::counted().await.0
    }

    async fn counted() -> (Self, Arc<AtomicUsize>) {
        let service = FakeRepoService::default();
        let routes = tonic::service::Routes::new(AccessServiceServer::new(service.clone()))
            .add_service(RepositoryServiceServer::new(service.clone()))
            .into_axum_router()
            .route("/git/7/raw", axum::routing::get(raw::raw))
            .route("/git/7/archive", axum::routing::get(archives::archive));
        (Self::of(routes).await, service.0)
    }

    async fn send(&self, method: &str, path: &str, token: Option<&str>, body: &str) -> (u16, HeaderMap, String) {
        let mut request = Request::builder().method(method).uri(format!("/api/v1{path}"));
        if let Some(token) = token {
            request = request.header("authorization", token);
        }
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let response = router(&self.state).oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.unwrap();
        (parts.status.as_u16(), parts.headers, String::from_utf8_lossy(&bytes).into_owned())
    }

    async fn status(&self, method: &str, path: &str, token: &str, body: &str) -> u16 {
        self.send(method, path, Some(token), body).await.0
    }
}

const BROKEN: &str = "{";

#[tokio::test]
async fn reading_a_repository_costs_one_call() {
    let (gateway, calls) = TestGateway::counted().await;
    for token in [None, Some(GOOD)] {
        calls.store(0, Ordering::SeqCst);
        let (status, _, body) = gateway.send("GET", "/repos/bob/read", token, "").await;
        assert_eq!((status, calls.load(Ordering::SeqCst)), (200, 1));
        assert_eq!(body.contains("bob@example.com"), token.is_some());
    }
}

#[tokio::test]
async fn a_bad_token_is_the_first_error() {
    let gateway = TestGateway::new().await;
    for (method, path) in [
        ("POST", "/user/repos"),
        ("POST", "/admin/users"),
        ("PUT", "/repos/bob/none/contents/a"),
        ("POST", "/repos/bob/none/issues"),
        ("POST", "/repos/bob/none/hooks"),
        ("GET", "/repos/bob/none.git"),
        ("DELETE", "/repos/bob/none.git"),
        ("GET", "/repos/bob/none.git/branches"),
        ("GET", "/users/bob%ff/repos"),
        ("GET", "/repos/search"),
    ] {
        assert_eq!(gateway.status(method, path, BAD, BROKEN).await, 401, "{method} {path}");
    }
}

#[tokio::test]
async fn a_hidden_repository_is_404_and_a_missing_permission_403_before_the_body_is_read() {
    let gateway = TestGateway::new().await;
    for (method, operation, level) in [
        ("PUT", "contents/a", "read"),
        ("DELETE", "contents/a", "read"),
        ("POST", "contents", "read"),
        ("POST", "branch_protections", "write"),
        ("PUT", "branch_protections/main", "write"),
        ("POST", "hooks", "write"),
        ("GET", "hooks", "write"),
        ("GET", "hooks/1", "write"),
        ("PATCH", "hooks/1", "write"),
        ("DELETE", "hooks/1", "write"),
    ] {
        let missing = gateway.send(method, &format!("/repos/bob/none/{operation}"), Some(GOOD), BROKEN).await;
        assert_eq!(missing.0, 404);
        let read = gateway.send("GET", "/repos/bob/none.git", Some(GOOD), "").await.2;
        let message = |body: &str| body.split('#').next().map(str::to_owned);
        assert_eq!(message(&missing.2), message(&read));
        assert_eq!(gateway.status(method, &format!("/repos/bob/{level}/{operation}"), GOOD, BROKEN).await, 403);
    }
    assert_eq!(gateway.status("POST", "/admin/users", GOOD, BROKEN).await, 403);
    assert_eq!(gateway.status("DELETE", "/repos/bob/admin", GOOD, "").await, 403);
}

#[tokio::test]
async fn errors_in_bodies_name_their_field() {
    let gateway = TestGateway::new().await;
    let cases = [
        ("POST", "/user/repos", r#"{"name":7}"#, "name"),
        ("POST", "/user/repos", r#"{"private":7}"#, "name"),
        ("POST", "/user/repos", "[]", "$"),
        ("PUT", "/repos/bob/write/contents/a", r#"{"message":"m"}"#, "content"),
        ("PUT", "/repos/bob/write/contents/a", r#"{"message":"m","content":"%"}"#, "content"),
        ("PUT", "/repos/bob/write/contents", r#"{"message":"m","content":""}"#, "path"),
        ("PUT", "/repos/bob/write/contents/a", r#"{"message":"m","content":"","author":[]}"#, "author"),
        ("PUT", "/repos/bob/write/contents/a", r#"{"message":"m","content":"","author":{"name":1}}"#, "author.name"),
        (
            "PUT",
            "/repos/bob/write/contents/a",
            r#"{"message":"m","content":"","committer":{"date":"now"}}"#,
            "committer.date",
        ),
        ("DELETE", "/repos/bob/write/contents", r#"{"message":"m"}"#, "path"),
        ("POST", "/repos/bob/write/contents", r#"{"message":"m","files":[]}"#, "files"),
        ("POST", "/repos/bob/write/contents", r#"{"message":"m","files":{}}"#, "files"),
        ("POST", "/repos/bob/write/contents", r#"{"message":"m","files":[7]}"#, "files[0]"),
        (
            "POST",
            "/repos/bob/write/contents",
            r#"{"message":"m","files":[{"path":"a","operation":"delete"},{"path":"b","operation":"chmod"}]}"#,
            "files[1].operation",
        ),
        (
            "POST",
            "/repos/bob/write/contents",
            r#"{"message":"m","files":[{"path":"a","operation":"create","content":"%"}]}"#,
            "files[0].content",
        ),
        ("POST", "/repos/bob/admin/branch_protections", "{}", "pattern"),
        ("PUT", "/repos/bob/admin/branch_protections/%ff", "{}", "pattern"),
        ("PUT", "/repos/bob/admin/branch_protections/a/b", r#"{"push_users":"ada"}"#, "push_users"),
        ("POST", "/repos/bob/admin/hooks", r#"{"type":"gogs"}"#, "config"),
        ("POST", "/repos/bob/admin/hooks", r#"{"type":"gogs","config":{"url":1}}"#, "config.url"),
        ("PATCH", "/repos/bob/admin/hooks/1", r#"{"config":7}"#, "config"),
        ("PATCH", "/repos/bob/admin/hooks/1", r#"{"config":{},"events":"push"}"#, "events"),
        ("POST", "/orgs/acme/hooks", r#"{"type":"gogs"}"#, "config"),
        ("PATCH", "/admin/hooks/1", r#"{"config":{},"active":1}"#, "active"),
    ];
    for (method, path, body, field) in cases {
        let (status, _, response) = gateway.send(method, path, Some(GOOD), body).await;
        assert_eq!(status, 422, "{path} {body}");
        let value: serde_json::Value = serde_json::from_str(&response).unwrap();
        assert_eq!(value["errors"][0]["field"], field, "{path} {body}");
        assert_eq!(gateway.status(method, path, GOOD, BROKEN).await, 400, "{path}");
    }
}

#[tokio::test]
async fn search_results_are_an_object_and_have_links() {
    let gateway = TestGateway::new().await;
    let (status, headers, body) = gateway.send("GET", "/repos/search?q=a&limit=10&page=2", None, "").await;
    assert_eq!((status, body.as_str()), (200, r#"{"data":[],"ok":true}"#));
    assert_eq!(headers["x-total-count"], "25");
    let link = headers["link"].to_str().unwrap();
    assert!(
        link.starts_with("<http://git.example.com/api/v1/repos/search?q=a&limit=10&page=3>; rel=\"next\","),
        "{link}"
    );
    let (_, headers, _) = gateway.send("GET", "/repos/search?q=partial&limit=10&page=2", None, "").await;
    assert!(!headers.contains_key("x-total-count"));
    let links: Vec<_> = headers["link"].to_str().unwrap().split("rel=").skip(1).collect();
    assert!(links.len() == 3 && links[0].starts_with("\"next\"") && links[2] == "\"prev\"", "{links:?}");
    for query in ["q=%00", "q=%ff&uid=-1", "uid=99999999999999999999", "uid=&page=-1&limit=1000000"] {
        assert_eq!(gateway.status("GET", &format!("/repos/search?{query}"), GOOD, "").await, 200, "{query}");
    }
    assert_eq!(gateway.status("GET", "/repos/search?uid=x", GOOD, "").await, 422);
}

#[tokio::test]
async fn a_repository_is_created_from_what_the_body_says() {
    let gateway = TestGateway::new().await;
    let (status, _, body) = gateway.send("POST", "/user/repos", Some(GOOD), r#"{"name":"write","unknown":{}}"#).await;
    assert_eq!(status, 201);
    let value: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&value["full_name"], &value["permissions"]["push"]), (&"bob/write".into(), &true.into()));
}
