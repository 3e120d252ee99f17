//! Calls through a channel: deadlines, retries, panics, health, traces and shutdown.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::testing::TestEnv;
use crate::{GrpcServer, ListenerOptions, serve};
use axum::Router;
use axum::routing::get as get_route;
use ferrite_core::Clock;
use ferrite_core::Lifecycle;
use ferrite_core::net::Address;
use ferrite_core::telemetry;
use ferrite_core::testing::eventually;
use ferrite_core::version::{Precondition, Version};
use ferrite_proto::ServiceRole;
use ferrite_proto::metadata::AUTHORIZATION;
use ferrite_proto::operation::{GET_REPOSITORY, UPDATE_REPOSITORY};
use ferrite_proto::repo::repository_service_client::RepositoryServiceClient;
use ferrite_proto::repo::{
    CreateRepositoryRequest, DeleteRepositoryRequest, ListRepositoriesRequest, UpdateRepositoryRequest,
};
use ferrite_rpc::grpc::{Channel, ChannelCredentials, channel, is_unsent};
use ferrite_rpc::version::VersionedCall;
use http::HeaderMap;
use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tower::ServiceExt;

use super::service::{FINE, HANG, PANIC, Repositories, SLOW, get};

type Client = RepositoryServiceClient<Channel>;

async fn start() -> (TestEnv, Repositories, Client) {
    let env = TestEnv::new(Clock::system());
    let repositories = Repositories::default();
    let server = GrpcServer::default().add(repositories.server());
    let address = env.serve(&env.socket("repo"), server, Router::new()).await;
    let client = RepositoryServiceClient::new(env.channel(&address));
    (env, repositories, client)
}

#[tokio::test]
async fn calls_work_over_unix_sockets_and_tcp() {
    let env = TestEnv::new(Clock::system());
    for address in [env.socket("repo"), Address::Tcp("127.0.0.1:0".into()), Address::Tcp("[::1]:0".into())] {
        let repositories = Repositories::default();
        let server = GrpcServer::default().add(repositories.server());
        let bound = env.serve(&address, server, Router::new()).await;
        let mut client = RepositoryServiceClient::new(env.channel(&bound));
        client.get_repository(get(FINE)).await.unwrap();
        assert_eq!(repositories.calls(), 1, "{bound}");
    }
}

#[tokio::test]
async fn the_token_of_a_user_is_sent_to_repo_svc_alone() {
    let (env, repositories, _) = start().await;
    let with_token = || {
        let mut request = get(FINE);
        request
            .metadata_mut()
            .insert(AUTHORIZATION, "Bearer 0123456789abcdef0123456789abcdef01234567".parse().unwrap());
        request
    };
    for callee in ServiceRole::ALL {
        let credentials = ChannelCredentials::new(env.token_source(), callee);
        let mut client = RepositoryServiceClient::new(channel(env.socket("repo"), Some(credentials)));
        let before = repositories.calls();
        let _ = client.get_repository(get(FINE)).await;
        let code = client.get_repository(with_token()).await.unwrap_err().code();
        let is_sent = code == Code::Unauthenticated;
        assert_eq!((is_sent, code == Code::Internal), (callee == ServiceRole::RepoSvc, callee != ServiceRole::RepoSvc));
        // The fake accepts service tokens for repo-svc only, and no access token.
        assert_eq!(repositories.calls() - before, usize::from(callee == ServiceRole::RepoSvc), "{callee}");
    }
}

#[tokio::test]
async fn a_call_without_credentials_is_refused() {
    let (env, repositories, _) = start().await;
    let mut client = RepositoryServiceClient::new(channel(env.socket("repo"), None));
    assert_eq!(client.get_repository(get(FINE)).await.unwrap_err().code(), Code::Unauthenticated);
    assert_eq!(repositories.calls(), 0);
}

#[tokio::test]
async fn the_server_ends_a_call_at_the_deadline_of_the_client() {
    let env = TestEnv::new(Clock::system());
    let repositories = Repositories::default();
    let server = GrpcServer::default().add(repositories.server());
    let router = server.into_router(env.layer(env.tokens()), Router::new(), &env.life);
    // An empty message, from a client without a timeout.
    let request = http::Request::post("/ferrite.repo.v1.RepositoryService/DeleteRepository")
        .header("content-type", "application/grpc")
        .header("grpc-timeout", "100m")
        .header("ferrite-service", &*env.service_token())
        .body(axum::body::Body::from(vec![0_u8; 5]))
        .unwrap();
    let response = tokio::time::timeout(Duration::from_secs(5), router.oneshot(request)).await.unwrap().unwrap();
    let status = tonic::Status::from_header_map(response.headers()).unwrap();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert_eq!(repositories.calls(), 1);
}

#[tokio::test]
async fn a_call_that_hangs_ends_at_its_deadline_on_both_sides() {
    let (_env, repositories, mut client) = start().await;
    let started = Instant::now();
    let mut request = get(HANG);
    request.set_timeout(Duration::from_secs(1));
    assert_eq!(client.get_repository(request).await.unwrap_err().code(), Code::DeadlineExceeded);
    let mut request = Request::new(DeleteRepositoryRequest::default());
    request.set_timeout(Duration::from_secs(1));
    assert_eq!(client.delete_repository(request).await.unwrap_err().code(), Code::DeadlineExceeded);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    assert_eq!(repositories.calls(), 2, "one deadline for all attempts");
    eventually("the handler was dropped", || async { repositories.state().dropped.load(Ordering::SeqCst) }).await;
}

#[tokio::test]
async fn a_call_is_told_the_version_that_it_asks_for_and_another_one_carries_it_as_its_precondition() {
    let (_env, _, mut client) = start().await;
    let asking = |operation| {
        let (mut request, versioned) = (get(FINE), VersionedCall::asking(operation));
        request.extensions_mut().insert(versioned.clone());
        (request, versioned)
    };
    let (request, other) = asking(UPDATE_REPOSITORY);
    client.get_repository(request).await.unwrap();
    assert_eq!(other.told(), None, "asked of another operation");
    let (request, versioned) = asking(GET_REPOSITORY);
    client.get_repository(request).await.unwrap();
    let told = versioned.told().expect("the version");
    let outdated = Version::parse(&"0".repeat(32)).expect("a version");
    for (precondition, code) in [
        (Precondition::Versions(vec![told]), None),
        (Precondition::Exists, None),
        (Precondition::Versions(vec![outdated]), Some(Code::Aborted)),
        (Precondition::Never, Some(Code::Aborted)),
    ] {
        let mut request = Request::new(UpdateRepositoryRequest::default());
        request.extensions_mut().insert(VersionedCall::requiring(UPDATE_REPOSITORY, precondition));
        let outcome = client.update_repository(request).await;
        assert_eq!(outcome.err().map(|status| status.code()), code);
    }
}

#[tokio::test]
async fn a_panic_fails_only_its_own_call() {
    let (_env, _, mut client) = start().await;
    for _ in 0..2 {
        let status = client.get_repository(get(PANIC)).await.unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::Internal, "internal error"));
        client.get_repository(get(FINE)).await.unwrap();
    }
}

#[tokio::test]
async fn a_panic_of_a_plain_route_is_a_500() {
    async fn fault() -> &'static str {
        panic!("a handler panics")
    }
    let env = TestEnv::new(Clock::system());
    let extra = Router::new().route("/git/{id}/raw", get_route(fault));
    let router = GrpcServer::default().into_router(env.layer(env.tokens()), extra, &env.life);
    let request = |token: Option<String>| {
        let builder = http::Request::get("/git/1/raw");
        let builder = token.into_iter().fold(builder, |builder, token| builder.header("ferrite-service", token));
        builder.body(axum::body::Body::empty()).unwrap()
    };
    assert_eq!(
        router.clone().oneshot(request(None)).await.unwrap().status(),
        401,
        "the plain route needs credentials too"
    );
    let response = router.oneshot(request(Some(env.service_token().to_string()))).await.unwrap();
    assert_eq!(response.status(), 500);
}

#[tokio::test]
async fn an_unknown_method_is_unimplemented() {
    let (env, _, _) = start().await;
    let mut client =
        ferrite_proto::issue::issue_service_client::IssueServiceClient::new(env.channel(&env.socket("repo")));
    let status = client.list_issues(Request::new(Default::default())).await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
}

#[tokio::test]
async fn a_message_beyond_the_limit_is_refused() {
    let (_env, repositories, mut client) = start().await;
    let request = |bytes: usize| CreateRepositoryRequest { description: "x".repeat(bytes), ..Default::default() };
    client.create_repository(request(3 * 1024 * 1024)).await.unwrap();
    let status = client.create_repository(request(5 * 1024 * 1024)).await.unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange);
    assert_eq!(repositories.calls(), 1);
    client.get_repository(get(FINE)).await.unwrap();
}

#[tokio::test]
async fn only_reads_are_repeated_when_the_service_is_unavailable() {
    let (_env, repositories, mut client) = start().await;
    repositories.state().failures.store(2, Ordering::SeqCst);
    client.get_repository(get(FINE)).await.unwrap();
    assert_eq!(repositories.calls(), 3);
    repositories.state().failures.store(1, Ordering::SeqCst);
    client.list_repositories(ListRepositoriesRequest::default()).await.unwrap();
    assert_eq!(repositories.calls(), 5);
    repositories.state().failures.store(1, Ordering::SeqCst);
    let status = client.create_repository(CreateRepositoryRequest::default()).await.unwrap_err();
    assert_eq!((status.code(), repositories.calls()), (Code::Unavailable, 6));
    assert!(!is_unsent(&status));
    repositories.state().failures.store(100, Ordering::SeqCst);
    assert_eq!(client.get_repository(get(FINE)).await.unwrap_err().code(), Code::Unavailable);
    assert_eq!(repositories.calls(), 11, "the number of attempts is limited");
}

#[tokio::test]
async fn a_read_is_retried_until_the_server_is_back() {
    let env = TestEnv::new(Clock::system());
    let address = env.socket("repo");
    let mut client = RepositoryServiceClient::new(env.channel(&address));
    let status = client.create_repository(CreateRepositoryRequest::default()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "a write is not retried");
    assert!(is_unsent(&status));
    let (read, _) = tokio::join!(client.get_repository(get(FINE)), async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let server = GrpcServer::default().add(Repositories::default().server());
        env.serve(&address, server, Router::new()).await
    });
    read.unwrap();
}

#[tokio::test]
async fn health_follows_readiness_and_ends_with_the_process() {
    let (env, _, _) = start().await;
    // Health checks need no credentials.
    let mut client = HealthClient::new(channel(env.socket("repo"), None));
    for service in ["", "ferrite.repo.v1.RepositoryService"] {
        let request = HealthCheckRequest { service: service.into() };
        let mut states = client.watch(request).await.unwrap().into_inner();
        let mut next = async || states.message().await.unwrap().map(|state| state.status());
        // The reporter may have set this state before the watch began.
        let mut status = next().await;
        if status != Some(ServingStatus::NotServing) {
            status = next().await;
        }
        assert_eq!(status, Some(ServingStatus::NotServing));
        env.life.set_ready(true);
        assert_eq!(next().await, Some(ServingStatus::Serving));
        env.life.set_ready(false);
        assert_eq!(next().await, Some(ServingStatus::NotServing));
    }
    env.life.set_ready(true);
    let request = HealthCheckRequest { service: String::new() };
    let mut states = client.watch(request).await.unwrap().into_inner();
    while states.message().await.unwrap().unwrap().status() != ServingStatus::Serving {}
    env.life.stop();
    assert_eq!(states.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
}

#[tokio::test]
async fn reflection_lists_the_services() {
    let (env, _, _) = start().await;
    let mut client = ServerReflectionClient::new(channel(env.socket("repo"), None));
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let responses = client.server_reflection_info(tokio_stream::once(request)).await.unwrap();
    let response = responses.into_inner().message().await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(list)) = response.message_response else { panic!("{response:?}") };
    let names: Vec<_> = list.service.iter().map(|service| service.name.as_str()).collect();
    for name in ["ferrite.repo.v1.RepositoryService", "ferrite.git.v1.GitService", "grpc.health.v1.Health"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
}

#[tokio::test]
async fn the_trace_of_a_client_is_passed_on_without_an_exporter() {
    use clap::Parser;
    #[derive(Parser)]
    struct Settings {
        #[command(flatten)]
        telemetry: ferrite_core::config::TelemetryArgs,
    }
    let settings = Settings::parse_from(["test", "--log", "off"]);
    let _telemetry = telemetry::init("test-svc", &settings.telemetry).unwrap();

    let (env, repositories, client) = start().await;
    let handler = move || async move {
        client.clone().get_repository(get(FINE)).await.unwrap();
        "ok"
    };
    let span = axum::middleware::from_fn(|request: axum::extract::Request, next: axum::middleware::Next| {
        telemetry::http_span(request, |request| next.run(request))
    });
    let router = Router::new().route("/x", get_route(handler)).layer(span);
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let request = http::Request::get("/x").header("traceparent", format!("00-{trace}-b7ad6b7169203331-01"));
    let response = router.oneshot(request.body(axum::body::Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 200);
    let seen = repositories.state().traceparent.lock().unwrap().clone().expect("the call has a trace");
    assert!(seen.starts_with(&format!("00-{trace}-")) && seen.ends_with("-01"), "{seen}");
    assert!(!seen.contains("b7ad6b7169203331"), "the parent is the span of this process, not of the client: {seen}");
    drop(env);
}

#[test]
fn without_a_span_no_trace_header_is_sent() {
    let mut headers = HeaderMap::new();
    telemetry::inject(&mut headers);
    assert!(!headers.contains_key("traceparent"), "{headers:?}");
}

#[tokio::test]
async fn a_call_in_flight_is_answered_while_the_server_stops() {
    let (env, repositories, client) = start().await;
    let mut slow = client.clone();
    let call = tokio::time::timeout(Duration::from_secs(10), slow.get_repository(get(SLOW)));
    let (response, ()) = tokio::join!(call, async {
        eventually("the call is in flight", || async { repositories.calls() == 1 }).await;
        env.life.stop();
    });
    response.unwrap().unwrap();
    assert!(env.life.finished().await, "all tasks end");
    assert!(env.socket("repo").connect().await.is_err(), "the socket is closed");
}

#[tokio::test]
async fn a_hanging_call_delays_the_shutdown_at_most_by_the_grace_period() {
    let env = TestEnv::new(Clock::system());
    let life = Lifecycle::new(Duration::from_millis(300));
    let repositories = Repositories::default();
    let router = GrpcServer::default().add(repositories.server());
    let router = router.into_router(env.layer(env.tokens()), Router::new(), &life);
    let listener = env.socket("repo").bind().await.unwrap();
    let server = life.spawn("server", serve(listener, router, ListenerOptions::default(), life.clone()));
    let mut client = RepositoryServiceClient::new(env.channel(&env.socket("repo")));
    let call = life.spawn("call", async move { client.delete_repository(DeleteRepositoryRequest::default()).await });
    eventually("the call hangs", || async { repositories.calls() == 1 }).await;
    let started = Instant::now();
    life.stop();
    server.await.unwrap();
    let took = started.elapsed();
    assert!(took >= Duration::from_millis(300) && took < Duration::from_secs(20), "{took:?}");
    let outcome = tokio::time::timeout(Duration::from_secs(20), call).await.expect("its connection is cut").unwrap();
    assert!(outcome.is_err());
}
