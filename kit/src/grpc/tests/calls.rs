use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get as get_route;
use ferrite_proto::repo::repository_service_client::RepositoryServiceClient;
use ferrite_proto::repo::{CreateRepositoryRequest, DeleteRepositoryRequest, ListRepositoriesRequest};
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
use crate::clock::Clock;
use crate::grpc::{Channel, channel};
use crate::net::Address;
use crate::server::{GrpcServer, ListenerLimits, serve};
use crate::telemetry;
use crate::testing::{TestEnv, eventually};

type Client = RepositoryServiceClient<Channel>;

async fn start() -> (TestEnv, Repositories, Client) {
    let site = TestEnv::new(Clock::system());
    let repositories = Repositories::default();
    let server = GrpcServer::default().add(repositories.server());
    let address = site.serve(&site.socket("repo"), server, Router::new()).await;
    let client = RepositoryServiceClient::new(site.channel(&address));
    (site, repositories, client)
}

#[tokio::test]
async fn calls_travel_over_unix_sockets_and_tcp_alike() {
    let site = TestEnv::new(Clock::system());
    for address in [site.socket("repo"), Address::Tcp("127.0.0.1:0".into()), Address::Tcp("[::1]:0".into())] {
        let repositories = Repositories::default();
        let server = GrpcServer::default().add(repositories.server());
        let bound = site.serve(&address, server, Router::new()).await;
        let mut client = RepositoryServiceClient::new(site.channel(&bound));
        client.get_repository(get(FINE)).await.unwrap();
        assert_eq!(repositories.calls(), 1, "{bound}");
    }
}

#[tokio::test]
async fn a_caller_that_proves_nothing_is_refused() {
    let (site, repositories, _) = start().await;
    let mut client = RepositoryServiceClient::new(channel(&site.socket("repo"), None));
    assert_eq!(client.get_repository(get(FINE)).await.unwrap_err().code(), Code::Unauthenticated);
    assert_eq!(repositories.calls(), 0);
}

#[tokio::test]
async fn the_server_gives_up_at_the_deadline_of_the_caller() {
    let site = TestEnv::new(Clock::system());
    let repositories = Repositories::default();
    let server = GrpcServer::default().add(repositories.server());
    let router = server.into_router(site.layer(site.tokens()), Router::new(), &site.life);
    // One message of no bytes, from a client that does not watch the time itself.
    let request = http::Request::post("/ferrite.repo.v1.RepositoryService/DeleteRepository")
        .header("content-type", "application/grpc")
        .header("grpc-timeout", "100m")
        .header("ferrite-service", site.credential().token())
        .body(axum::body::Body::from(vec![0_u8; 5]))
        .unwrap();
    let response = tokio::time::timeout(Duration::from_secs(5), router.oneshot(request)).await.unwrap().unwrap();
    let status = tonic::Status::from_header_map(response.headers()).unwrap();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert_eq!(repositories.calls(), 1);
}

#[tokio::test]
async fn a_call_that_hangs_ends_at_its_deadline_on_both_sides() {
    let (_site, repositories, mut client) = start().await;
    let started = Instant::now();
    let mut request = get(HANG);
    request.set_timeout(Duration::from_millis(200));
    assert_eq!(client.get_repository(request).await.unwrap_err().code(), Code::DeadlineExceeded);
    let mut request = Request::new(DeleteRepositoryRequest::default());
    request.set_timeout(Duration::from_millis(200));
    assert_eq!(client.delete_repository(request).await.unwrap_err().code(), Code::DeadlineExceeded);
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    assert_eq!(repositories.calls(), 2, "time is up for all attempts together");
    eventually("the handler was dropped", || async { repositories.state().dropped.load(Ordering::SeqCst) }).await;
}

#[tokio::test]
async fn a_panic_is_one_callers_internal_error() {
    let (_site, _, mut client) = start().await;
    for _ in 0..2 {
        let status = client.get_repository(get(PANIC)).await.unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::Internal, "internal error"));
        client.get_repository(get(FINE)).await.unwrap();
    }
}

#[tokio::test]
async fn a_panic_of_a_plain_route_is_a_500() {
    async fn fault() -> &'static str {
        panic!("a fault of ours")
    }
    let site = TestEnv::new(Clock::system());
    let extra = Router::new().route("/git/{id}/raw", get_route(fault));
    let router = GrpcServer::default().into_router(site.layer(site.tokens()), extra, &site.life);
    let request = |token: Option<String>| {
        let builder = http::Request::get("/git/1/raw");
        let builder = token.into_iter().fold(builder, |builder, token| builder.header("ferrite-service", token));
        builder.body(axum::body::Body::empty()).unwrap()
    };
    assert_eq!(router.clone().oneshot(request(None)).await.unwrap().status(), 401, "it is behind the same layer");
    let response = router.oneshot(request(Some(site.credential().token()))).await.unwrap();
    assert_eq!(response.status(), 500);
}

#[tokio::test]
async fn an_unknown_method_is_unimplemented() {
    let (site, _, _) = start().await;
    let mut client =
        ferrite_proto::issue::issue_service_client::IssueServiceClient::new(site.channel(&site.socket("repo")));
    let status = client.list_issues(Request::new(Default::default())).await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
}

#[tokio::test]
async fn a_message_beyond_the_limit_is_refused() {
    let (_site, repositories, mut client) = start().await;
    let request = |bytes: usize| CreateRepositoryRequest { description: "x".repeat(bytes), ..Default::default() };
    client.create_repository(request(3 * 1024 * 1024)).await.unwrap();
    let status = client.create_repository(request(5 * 1024 * 1024)).await.unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange);
    assert_eq!(repositories.calls(), 1);
    client.get_repository(get(FINE)).await.unwrap();
}

#[tokio::test]
async fn only_reads_are_repeated_when_the_service_is_unavailable() {
    let (_site, repositories, mut client) = start().await;
    repositories.state().failures.store(2, Ordering::SeqCst);
    client.get_repository(get(FINE)).await.unwrap();
    assert_eq!(repositories.calls(), 3);
    repositories.state().failures.store(1, Ordering::SeqCst);
    client.list_repositories(ListRepositoriesRequest::default()).await.unwrap();
    assert_eq!(repositories.calls(), 5);
    repositories.state().failures.store(1, Ordering::SeqCst);
    let status = client.create_repository(CreateRepositoryRequest::default()).await.unwrap_err();
    assert_eq!((status.code(), repositories.calls()), (Code::Unavailable, 6));
    repositories.state().failures.store(100, Ordering::SeqCst);
    assert_eq!(client.get_repository(get(FINE)).await.unwrap_err().code(), Code::Unavailable);
    assert_eq!(repositories.calls(), 11, "there is an end to it");
}

#[tokio::test]
async fn a_read_waits_out_a_restart() {
    let site = TestEnv::new(Clock::system());
    let address = site.socket("repo");
    let mut client = RepositoryServiceClient::new(site.channel(&address));
    let status = client.create_repository(CreateRepositoryRequest::default()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "a write is the caller's to repeat");
    let (read, _) = tokio::join!(client.get_repository(get(FINE)), async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let server = GrpcServer::default().add(Repositories::default().server());
        site.serve(&address, server, Router::new()).await
    });
    read.unwrap();
}

#[tokio::test]
async fn health_follows_readiness_and_ends_with_the_process() {
    let (site, _, _) = start().await;
    // Asked without a credential: whether we live is no secret.
    let mut client = HealthClient::new(channel(&site.socket("repo"), None));
    for service in ["", "ferrite.repo.v1.RepositoryService"] {
        let request = HealthCheckRequest { service: service.into() };
        let mut states = client.watch(request).await.unwrap().into_inner();
        let mut next = async || states.message().await.unwrap().map(|state| state.status());
        // The reporter may say so before the first look.
        let mut status = next().await;
        if status != Some(ServingStatus::NotServing) {
            status = next().await;
        }
        assert_eq!(status, Some(ServingStatus::NotServing));
        site.life.set_ready(true);
        assert_eq!(next().await, Some(ServingStatus::Serving));
        site.life.set_ready(false);
        assert_eq!(next().await, Some(ServingStatus::NotServing));
    }
    site.life.set_ready(true);
    let request = HealthCheckRequest { service: String::new() };
    let mut states = client.watch(request).await.unwrap().into_inner();
    while states.message().await.unwrap().unwrap().status() != ServingStatus::Serving {}
    site.life.stop();
    assert_eq!(states.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
}

#[tokio::test]
async fn reflection_lists_the_services() {
    let (site, _, _) = start().await;
    let mut client = ServerReflectionClient::new(channel(&site.socket("repo"), None));
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let answers = client.server_reflection_info(tokio_stream::once(request)).await.unwrap();
    let answer = answers.into_inner().message().await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else { panic!("{answer:?}") };
    let names: Vec<_> = list.service.iter().map(|service| service.name.as_str()).collect();
    for name in ["ferrite.repo.v1.RepositoryService", "ferrite.git.v1.GitService", "grpc.health.v1.Health"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
}

#[tokio::test]
async fn a_callers_trace_goes_on_behind_us_without_an_exporter_too() {
    use clap::Parser;
    #[derive(Parser)]
    struct Settings {
        #[command(flatten)]
        telemetry: crate::config::TelemetryArgs,
    }
    let settings = Settings::parse_from(["test", "--log", "off"]);
    let _telemetry = telemetry::init("test-svc", &settings.telemetry).unwrap();

    let (site, repositories, client) = start().await;
    let handler = move || async move {
        client.clone().get_repository(get(FINE)).await.unwrap();
        "ok"
    };
    let router = Router::new().route("/x", get_route(handler)).layer(axum::middleware::from_fn(telemetry::http_span));
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let request = http::Request::get("/x").header("traceparent", format!("00-{trace}-b7ad6b7169203331-01"));
    let response = router.oneshot(request.body(axum::body::Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 200);
    let seen = repositories.state().traceparent.lock().unwrap().clone().expect("a trace came along");
    assert!(seen.starts_with(&format!("00-{trace}-")) && seen.ends_with("-01"), "{seen}");
    assert!(!seen.contains("b7ad6b7169203331"), "the parent is our span, not our caller's: {seen}");
    drop(site);
}

#[test]
fn without_a_span_no_trace_is_made_up() {
    let mut headers = HeaderMap::new();
    telemetry::inject(&mut headers);
    assert!(!headers.contains_key("traceparent"), "{headers:?}");
}

#[tokio::test]
async fn a_call_in_flight_is_answered_while_the_server_stops() {
    let (site, _, client) = start().await;
    let mut slow = client.clone();
    let call = tokio::time::timeout(Duration::from_secs(10), slow.get_repository(get(SLOW)));
    let (answer, ()) = tokio::join!(call, async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        site.life.stop();
    });
    answer.unwrap().unwrap();
    assert!(site.life.finished().await, "and then everything ends");
    assert!(site.socket("repo").connect().await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn a_call_that_hangs_does_not_hold_up_the_stop_beyond_its_grace() {
    let site = TestEnv::new(Clock::system());
    let life = crate::Lifecycle::new(Duration::from_millis(300));
    let router = GrpcServer::default().add(Repositories::default().server());
    let router = router.into_router(site.layer(site.tokens()), Router::new(), &life);
    let listener = site.socket("repo").bind().await.unwrap();
    let server = life.spawn("server", serve(listener, router, ListenerLimits::default(), life.clone()));
    let mut client = RepositoryServiceClient::new(site.channel(&site.socket("repo")));
    let call = life.spawn("call", async move { client.delete_repository(DeleteRepositoryRequest::default()).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let started = Instant::now();
    life.stop();
    server.await.unwrap();
    let took = started.elapsed();
    assert!(took >= Duration::from_millis(300) && took < Duration::from_secs(2), "{took:?}");
    let outcome = tokio::time::timeout(Duration::from_secs(2), call).await.expect("its connection is cut").unwrap();
    assert!(outcome.is_err());
}
