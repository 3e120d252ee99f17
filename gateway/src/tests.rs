//! The whole router with unreachable services: which requests are refused before a service is
//! called, and the response if no service answers.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use ferrite_core::net::Address;
use ferrite_core::{Clock, Lifecycle};
use ferrite_listener::{ListenerOptions, Quota, QuotaLimits, ResponseMemory, TrustedProxies, serve};
use ferrite_proto::repo::access_service_client::AccessServiceClient;
use ferrite_proto::{ServiceRole, operation};
use ferrite_rpc::grpc::{ChannelCredentials, channel};
use ferrite_rpc::testing::ServiceKeys;
use http::{HeaderMap, Request, Response, StatusCode};
use prost::Message;
use tower::ServiceExt;

use crate::api::{Responder, respond};
use crate::blocking::BlockingPools;
use crate::http::body_limits::BodyLimits;
use crate::http::client_bounds::ClientBounds;
use crate::http::middleware;
use crate::http::response::Json;
use crate::pages::options::PageOptions;
use crate::state::AppState;
use crate::upstream::clients::Clients;
use crate::upstream::git_client::GitHttpClient;
use crate::upstream::reauthorize::Reauthorizer;
use crate::{Capacity, docs, operations, router, routes};
use ferrite_api_types::links::Links;

mod contract;
mod openapi;

const TOKEN: (&str, &str) = ("authorization", "token 0123456789012345678901234567890123456789");
const PUBLIC: [&str; 5] = [
    "/api/v1/version",
    "/api/v1/settings/api",
    "/api/v1/settings/attachment",
    "/api/v1/settings/repository",
    "/api/v1/settings/ui",
];
/// `ada:secret`
const BASIC: (&str, &str) = ("authorization", "Basic YWRhOnNlY3JldA==");

/// Returns credentials that no git-svc accepts.
pub(crate) fn git_credentials() -> ChannelCredentials {
    credentials(ServiceRole::GitSvc)
}

fn credentials(audience: ServiceRole) -> ChannelCredentials {
    let folder = tempfile::tempdir().unwrap();
    let keys = ServiceKeys::write(folder.path());
    ChannelCredentials::new(keys.token_source(ServiceRole::Gateway, &Clock::system()), audience)
}

/// Returns the socket path of a test's git-svc.
pub(crate) fn git_socket(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("ferrite-git-client-{}-{name}.sock", std::process::id()))
}

/// The git-svc of a test. When dropped, it stops and removes its socket.
pub(crate) struct GitServer {
    life: Lifecycle,
    socket: PathBuf,
}

impl Deref for GitServer {
    type Target = Lifecycle;

    fn deref(&self) -> &Lifecycle {
        &self.life
    }
}

impl Drop for GitServer {
    fn drop(&mut self) {
        self.life.stop();
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// Serves `router` as git-svc and returns a client of it. Every test needs a unique name.
pub(crate) async fn git_server(name: &str, router: Router) -> (GitHttpClient, GitServer) {
    let socket = git_socket(name);
    let address = Address::Unix(socket.clone());
    let listener = address.bind().await.expect("no other test has this socket");
    let life = Lifecycle::new(Duration::from_millis(100));
    life.spawn("git-svc", serve(listener, router, ListenerOptions::default(), life.clone()));
    (GitHttpClient::new(address, git_credentials()), GitServer { life, socket })
}

pub(crate) fn unreachable_services() -> AppState {
    let nowhere = Address::Unix(PathBuf::from("/nonexistent/ferrite.sock"));
    let to = |role| channel(&nowhere, Some(credentials(role)));
    let life = Lifecycle::new(Duration::from_secs(1));
    AppState {
        clients: Clients {
            repo: to(ServiceRole::RepoSvc),
            issue: to(ServiceRole::IssueSvc),
            hook: to(ServiceRole::HookSvc),
            git: to(ServiceRole::GitSvc).into(),
        },
        git_client: GitHttpClient::new(nowhere.clone(), git_credentials()),
        links: Links::new("http://git.example.com", "git.example.com:22"),
        reauthorizer: Reauthorizer::new(
            AccessServiceClient::new(to(ServiceRole::RepoSvc)),
            Duration::from_secs(30),
            life.clone(),
        ),
        allow_query_token: false,
        trusted_proxies: TrustedProxies::default(),
        client_bounds: ClientBounds {
            requests: Quota::new(QuotaLimits { per_address: 512, ..QuotaLimits::NONE }),
            responses: ResponseMemory::new(64 << 20, 256 << 20),
        },
        body_limits: BodyLimits::new(1, 1, Duration::from_secs(30)),
        max_response_bytes: 16 << 20,
        blocking: BlockingPools::default(),
        import_wait: Duration::from_secs(3600),
        max_asset_bytes: 1 << 20,
        pages: PageOptions::default(),
        life,
    }
}

struct Received {
    status: u16,
    headers: HeaderMap,
    body: String,
}

impl Received {
    async fn of(response: Response<Body>) -> Self {
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.unwrap();
        Self { status: parts.status.as_u16(), headers: parts.headers, body: String::from_utf8(bytes.to_vec()).unwrap() }
    }

    fn message(&self) -> String {
        assert_eq!(self.headers["content-type"], "application/json; charset=UTF-8");
        let value: serde_json::Value = serde_json::from_str(&self.body).unwrap();
        let anchor = value["url"].as_str().unwrap().strip_prefix("http://git.example.com/docs/api").unwrap();
        assert!(anchor.is_empty() || anchor.starts_with('#'), "{anchor}");
        value["message"].as_str().unwrap().to_owned()
    }
}

async fn send_to(router: Router, method: &str, path: &str, headers: &[(&str, &str)]) -> Received {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    Received::of(router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap()).await
}

async fn send(method: &str, path: &str, headers: &[(&str, &str)]) -> Received {
    send_to(router(&unreachable_services()), method, path, headers).await
}

#[tokio::test]
async fn unknown_paths_are_404_with_an_object() {
    for path in [
        "/api",
        "/api/v1",
        "/api/v1/",
        "/api/v1/nothing",
        "/api/v1/raw/x",
        "/api/v2/user",
        "/api/v1//user",
        "/api/v1/repos/a/../b",
    ] {
        let response = send("GET", path, &[TOKEN]).await;
        assert_eq!((response.status, response.message().as_str()), (404, "not found"), "{path}");
    }
}

#[tokio::test]
async fn an_error_leads_to_the_documentation_of_its_operation() {
    for (method, path, anchor) in [
        ("GET", "/api/v1/repos/ada/demo/labels", "#ListLabels"),
        ("PUT", "/api/v1/repos/ada/demo/issues/1/labels/", "#ChangeIssueLabelsReplace"),
        ("PUT", "/api/v1/repos/ada/demo/labels", ""),
        ("GET", "/api/v1/nothing", ""),
    ] {
        let response = send(method, path, &[]).await;
        let url = format!(r#""url":"http://git.example.com/docs/api{anchor}""#);
        assert!(response.body.contains(&url), "{method} {path}: {}", response.body);
    }
}

#[tokio::test]
async fn a_wrong_method_is_405_and_says_which_are_right() {
    let response = send("PATCH", "/api/v1/user/repos", &[TOKEN]).await;
    assert_eq!((response.status, response.message().as_str()), (405, "method not allowed"));
    let allowed = response.headers["allow"].to_str().unwrap();
    assert!(allowed.contains("GET") && allowed.contains("POST"), "{allowed}");
}

#[tokio::test]
async fn options_is_answered_for_every_path_without_credentials() {
    for path in ["/api/v1/user", "/api/v1/repos/a/b", "/api/v1/nothing"] {
        let response = send("OPTIONS", path, &[]).await;
        assert_eq!((response.status, response.body.as_str()), (200, ""), "{path}");
        assert!(!response.headers.contains_key("content-type"));
    }
}

fn filled(template: &str) -> String {
    let part = |part: &str| if part.starts_with('{') { "7".to_owned() } else { part.to_owned() };
    template.split('/').map(part).collect::<Vec<_>>().join("/")
}

#[tokio::test]
async fn every_listed_route_is_served_and_each_is_listed_once() {
    let (routes, router) = (routes(), &router(&unreachable_services()));
    // In parallel, because each call retries for a while before it fails.
    let responses = routes.iter().map(|(method, template)| async move {
        let response = send_to(router.clone(), method, &filled(template), &[TOKEN]).await;
        assert!(![404, 405].contains(&response.status) || template.contains("info/refs"), "{method} {template}");
    });
    futures_util::future::join_all(responses).await;
    for (method, template) in &routes {
        assert_eq!(routes.iter().filter(|route| **route == (*method, *template)).count(), 1, "{method} {template}");
    }
    for known in [("GET", "/docs/api"), ("POST", "/{owner}/{repo}/git-upload-pack"), ("PATCH", "/api/v1/teams/{id}")] {
        assert!(routes.contains(&known), "{known:?}");
    }
}

#[test]
fn every_route_but_the_documentation_names_an_operation_of_the_contracts() {
    let set = prost_types::FileDescriptorSet::decode(ferrite_proto::DESCRIPTORS).unwrap();
    let services = set.file.iter().flat_map(|file| file.service.iter().map(move |service| (file.package(), service)));
    let rpcs: BTreeSet<_> = services
        .flat_map(|(package, service)| {
            service.method.iter().map(move |method| format!("{package}.{}/{}", service.name(), method.name()))
        })
        .collect();
    let bodies = [
        operation::RENDER_MARKDOWN,
        operation::UPLOAD_PACK,
        operation::RECEIVE_PACK,
        operation::RAW,
        operation::ARCHIVE,
        operation::ASSET,
        operation::GET_SETTINGS,
        operation::GET_VERSION,
    ];
    for route in operations() {
        assert!(rpcs.contains(route.operation) || bodies.contains(&route.operation), "{route:?}");
        match route.capacity {
            Capacity::Own => {}
            Capacity::Organization => assert!(route.path.starts_with("/api/v1/org"), "{route:?}"),
            Capacity::Administrator => assert!(route.path.starts_with("/api/v1/admin/"), "{route:?}"),
        }
    }
    let named: BTreeSet<_> = operations().iter().map(|route| (route.method, route.path)).collect();
    let unnamed: Vec<_> = routes().into_iter().filter(|route| !named.contains(route)).collect();
    assert_eq!(unnamed, docs::paths().map(|path| ("GET", path)).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_missing_token_is_the_first_error() {
    let odd = [
        ("GET", "/api/v1/user/"),
        ("GET", "/api/v1/user?token=0123456789012345678901234567890123456789"),
        ("GET", "/api/v1/user?access_token=0123456789012345678901234567890123456789"),
        ("DELETE", "/api/v1/repos/ada/demo.git"),
        ("DELETE", "/api/v1/repos/ada/demo/branches/a/b"),
        ("PUT", "/api/v1/repos/ada/demo/contents/a/../b"),
        ("GET", "/api/v1/repos/ada/demo/hooks/abc"),
        ("GET", "/api/v1/teams/abc"),
    ];
    let open = [
        "/api/v1/openapi.json",
        "/api/v1/users/search",
        "/api/v1/users/{username}",
        "/api/v1/users/{username}/activities/feeds",
        "/api/v1/users/{username}/followers",
        "/api/v1/users/{username}/following",
        "/api/v1/users/{username}/orgs",
        "/api/v1/users/{username}/repos",
        "/api/v1/users/{username}/starred",
        "/api/v1/orgs/{org}",
        "/api/v1/orgs/{org}/activities/feeds",
        "/api/v1/orgs/{org}/members",
        "/api/v1/orgs/{org}/public_members",
        "/api/v1/orgs/{org}/repos",
        "/api/v1/repos/search",
        "/api/v1/repos/{owner}/{repo}",
        "/api/v1/repositories/{id}",
    ];
    // What everybody can read of a public repository.
    let public = "activities archive assignees blame branches commits compare contents forks git issues labels \
                  languages media milestones pulls raw releases reviewers stargazers statuses subscribers tags topics \
                  tree-commits wiki";
    let is_public = |path: &str| {
        let part = path.strip_prefix("/api/v1/repos/{owner}/{repo}/").and_then(|rest| rest.split('/').next());
        part.is_some_and(|part| public.split_whitespace().any(|open| open == part))
    };
    let needs_token = |(method, path): &(&str, &str)| {
        let is_open =
            ((open.contains(path) || is_public(path)) && *method == "GET") || path.starts_with("/api/v1/markdown");
        let is_open = is_open || PUBLIC.contains(path);
        path.starts_with("/api/v1") && !is_open && !path.contains("/tokens") && *path != "/api/v1/user/password"
    };
    let listed: Vec<_> =
        routes().into_iter().filter(needs_token).map(|(method, path)| (method, filled(path))).collect();
    assert!(listed.len() > 70, "{}", listed.len());
    let operations = listed.iter().map(|(method, path)| (*method, path.as_str())).chain(odd);
    let router = router(&unreachable_services());
    for (method, path) in operations {
        let response = send_to(router.clone(), method, path, &[]).await;
        assert_eq!(
            (response.status, response.message().as_str()),
            (401, "credentials are required"),
            "{method} {path}"
        );
        assert_eq!(response.headers["www-authenticate"], "Bearer realm=\"Ferrite\"", "{method} {path}");
        for wrong in [BASIC, ("authorization", "nonsense")] {
            assert_eq!(send_to(router.clone(), method, path, &[wrong]).await.status, 401, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn operations_open_to_all_refuse_a_password_and_nonsense() {
    for path in ["/api/v1/repos/search", "/api/v1/repos/ada/demo", "/api/v1/users/ada"] {
        for (wrong, message) in [
            (
                BASIC,
                "an access token is required, not a password: create one with POST /api/v1/users/{username}/tokens",
            ),
            (("authorization", "nonsense"), "credentials are not valid"),
            (("authorization", "token "), "credentials are not valid"),
        ] {
            let response = send("GET", path, &[wrong]).await;
            assert_eq!((response.status, response.message().as_str()), (401, message), "{path}");
        }
    }
}

#[tokio::test]
async fn facts_about_the_server_are_told_whatever_the_credentials() {
    for path in PUBLIC {
        let mut seen = BTreeSet::new();
        for headers in [&[][..], &[TOKEN], &[BASIC], &[("authorization", "nonsense")]] {
            let response = send("GET", path, headers).await;
            assert_eq!(response.status, 200, "{path} {headers:?}");
            seen.insert(response.body);
        }
        assert_eq!(seen.len(), 1, "{path}");
        let response = send("GET", &format!("{path}?token=nonsense"), &[]).await;
        assert_eq!(response.status, 200, "{path}");
        let tag = response.headers["etag"].to_str().unwrap();
        assert_eq!(send("GET", path, &[("if-none-match", tag)]).await.status, 304, "{path}");
    }
    let version = send("GET", "/api/v1/version", &[]).await.body;
    let expected = format!(r#"{{"version":"1.25.0+ferrite.{}"}}"#, env!("CARGO_PKG_VERSION"));
    assert_eq!(version.trim_end(), expected);
}

#[tokio::test]
async fn tokens_and_a_new_password_ask_for_a_password() {
    for (method, path) in [
        ("GET", "/api/v1/users/ada/tokens"),
        ("POST", "/api/v1/users/ada/tokens"),
        ("DELETE", "/api/v1/users/ada/tokens/one"),
        ("PUT", "/api/v1/user/password"),
    ] {
        for (headers, message) in [
            (&[][..], "credentials are required"),
            (&[TOKEN][..], "a user name and password are required, not a token"),
        ] {
            let response = send(method, path, headers).await;
            assert_eq!((response.status, response.message().as_str()), (401, message), "{method}");
            assert_eq!(response.headers["www-authenticate"], "Basic realm=\"Ferrite\"");
        }
    }
}

#[tokio::test]
async fn an_unreachable_service_is_503_with_retry_after() {
    for (path, headers) in [
        ("/api/v1/user", &[TOKEN][..]),
        ("/api/v1/repos/ada/demo", &[]),
        ("/api/v1/repos/ada/demo/issues", &[TOKEN]),
        ("/api/v1/users/ada/tokens", &[BASIC]),
    ] {
        let response = send("GET", path, headers).await;
        assert_eq!(response.status, 503, "{path}");
        assert_eq!(response.headers["retry-after"], "1");
        response.message();
    }
}

#[tokio::test]
async fn every_response_has_a_request_id_and_keeps_a_safe_one() {
    let response = send("GET", "/api/v1/nothing", &[("x-request-id", "my-id-1")]).await;
    assert_eq!(response.headers["x-request-id"], "my-id-1");
    for headers in [&[][..], &[("x-request-id", "a b")]] {
        assert_eq!(send("GET", "/x", headers).await.headers["x-request-id"].len(), 36);
    }
}

#[tokio::test]
async fn a_malformed_idempotency_key_is_422_and_only_for_writes() {
    let long = "k".repeat(256);
    let message = "`Idempotency-Key`: must be a single header of 1 to 255 printable ASCII characters";
    for malformed in [long.as_str(), "", "a\tb"] {
        let key = ("idempotency-key", malformed);
        let response = send("POST", "/api/v1/user/repos", &[TOKEN, key]).await;
        assert_eq!((response.status, response.message().as_str()), (422, message), "{malformed:?}");
        assert!(response.body.contains(r#""field":"Idempotency-Key""#));
        assert_eq!(send("GET", "/api/v1/user", &[TOKEN, key]).await.status, 503);
    }
}

/// Returns the gateway's layers around a list and a handler that panics.
fn layered() -> Router {
    let routes = Router::new()
        .route("/api/v1/list", get(|| async { Json(["<a>"]) }))
        .route("/api/v1/panic", get(panics))
        .layer(from_fn_with_state(Responder::new(unreachable_services().api()), respond));
    Router::new()
        .fallback_service(routes)
        .layer(from_fn_with_state(unreachable_services().middleware(), middleware::handle))
}

async fn panics() -> StatusCode {
    panic!("on purpose, with a secret")
}

#[tokio::test]
async fn a_panic_is_a_500_without_its_message() {
    let response = send_to(layered(), "GET", "/api/v1/panic", &[]).await;
    assert_eq!((response.status, response.message().as_str()), (500, "internal error"));
}

#[tokio::test]
async fn an_unchanged_list_is_not_sent_again() {
    let first = send_to(layered(), "GET", "/api/v1/list", &[]).await;
    assert_eq!((first.status, first.body.as_str()), (200, "[\"\\u003ca\\u003e\"]"));
    let tag = first.headers["etag"].to_str().unwrap().to_owned();
    assert!(tag.starts_with('"'));
    let second = send_to(layered(), "GET", "/api/v1/list", &[("if-none-match", &tag)]).await;
    assert_eq!((second.status, second.body.as_str()), (304, ""));
    assert_eq!(second.headers["etag"], tag.as_str());
    assert!(!second.headers.contains_key("content-type"));
    let other = send_to(layered(), "GET", "/api/v1/list", &[("if-none-match", "\"other\"")]).await;
    assert_eq!(other.status, 200);
}

#[tokio::test]
async fn head_is_get_without_a_body() {
    let get = send_to(layered(), "GET", "/api/v1/list", &[]).await;
    let head = send_to(layered(), "HEAD", "/api/v1/list", &[]).await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert_eq!(head.headers["etag"], get.headers["etag"]);
    assert_eq!(head.headers["content-length"], get.body.len().to_string().as_str());
    let missing = send_to(layered(), "HEAD", "/api/v1/nothing", &[]).await;
    assert_eq!((missing.status, missing.body.as_str()), (404, ""));
}
