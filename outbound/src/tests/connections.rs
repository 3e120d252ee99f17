use std::io::Write;
use std::net::{IpAddr, TcpListener};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use http::Method;

use super::{TestResolver, TestServer, assert_unvisited, get, get_from, policy, short};
use crate::{Client, Headers, Limits, OutboundUrl, Policy, Request, Resolve, SendError};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn client(allowed: &str, resolver: &Arc<TestResolver>) -> Client {
    Client::with_resolver(policy(allowed), resolver.clone())
}

#[tokio::test]
async fn a_name_that_changes_after_the_check_does_not_move_the_connection() {
    let server = TestServer::respond_with(OK);
    let other = TcpListener::bind(("127.0.0.2", server.port)).unwrap();
    // The first answer is permitted, the second is not.
    let resolver = TestResolver::new(&[&["127.0.0.1"], &["127.0.0.2"]]);
    let client = client("127.0.0.1", &resolver);
    let url = format!("http://rebind.test:{}/", server.port);
    assert_eq!(get(&client, &url, Limits::default()).await.unwrap().status, 200);
    assert_eq!(resolver.asked(), 1);
    assert!(server.request().contains(&format!("Host: {}\r\n", &url[7..url.len() - 1])));
    assert_eq!(get(&client, &url, Limits::default()).await.unwrap_err(), SendError::RefusedAddress);
    assert_eq!(resolver.asked(), 2);
    assert_unvisited(&other);
}

#[tokio::test]
async fn one_forbidden_address_among_several_refuses_the_request() {
    let permitted = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = permitted.local_addr().unwrap().port();
    for answer in [["127.0.0.1", "10.0.0.1"], ["127.0.0.1", "::ffff:127.0.0.1"], ["169.254.169.254", "127.0.0.1"]] {
        let resolver = TestResolver::new(&[&answer]);
        let failure = get(&client("127.0.0.1", &resolver), &format!("http://a.test:{port}/"), Limits::default()).await;
        assert_eq!(failure.unwrap_err(), SendError::RefusedAddress, "{answer:?}");
    }
    assert_unvisited(&permitted);
}

#[tokio::test]
async fn addresses_are_checked_at_each_use_of_a_url() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let stored = OutboundUrl::parse(&format!("http://127.0.0.1:{port}/"), &policy("127.0.0.1")).unwrap();
    let client = Client::new(Policy::default());
    let (headers, body, limits) = (Headers::new(), Bytes::new(), Limits::default());
    let request = Request { url: &stored, method: Method::POST, headers, body, limits };
    assert_eq!(client.send(request).await.unwrap_err(), SendError::RefusedAddress);
    // The system's resolver knows this name without a network.
    let named = format!("http://localhost:{port}/");
    assert_eq!(get(&client, &named, Limits::default()).await.unwrap_err(), SendError::RefusedAddress);
    assert_unvisited(&listener);
}

#[tokio::test]
async fn a_listed_name_reaches_its_addresses_and_resolves_for_other_programs() {
    let server = TestServer::respond_with(OK);
    let resolver = TestResolver::new(&[&["127.0.0.1", "127.0.0.1"]]);
    let client = client("ci.test", &resolver);
    let url = OutboundUrl::parse(&format!("http://CI.test:{}/", server.port), client.policy()).unwrap();
    assert_eq!(client.resolve(&url).await, Ok(vec![([127, 0, 0, 1], server.port).into()]));
    assert_eq!(get(&client, url.expose(), Limits::default()).await.unwrap().body, "ok");
    let other = get(&client, "http://ci.test.other/", Limits::default()).await;
    assert_eq!(other.unwrap_err(), SendError::RefusedAddress);
}

#[tokio::test]
async fn the_next_address_is_tried_when_one_refuses() {
    let server = TestServer::respond_with(OK);
    let resolver = TestResolver::new(&[&["127.0.0.3", "127.0.0.1"]]);
    let url = format!("http://a.test:{}/", server.port);
    assert_eq!(get(&client("127.0.0.0/8", &resolver), &url, Limits::default()).await.unwrap().status, 200);
}

#[tokio::test]
async fn names_and_ports_without_a_server_fail_with_their_step() {
    // Nothing listens on port 1. Another test might reuse a port that was bound and released.
    let (resolver, url) = (TestResolver::new(&[&["127.0.0.1"]]), "http://a.test:1/");
    let failure = get(&client("127.0.0.1", &resolver), url, Limits::default()).await.unwrap_err();
    assert_eq!((failure, failure.to_string().as_str()), (SendError::CannotConnect, "cannot connect"));
    for answers in [&[][..], &[&[][..]]] {
        let failure = get(&client("", &TestResolver::new(answers)), url, Limits::default()).await.unwrap_err();
        assert_eq!((failure, failure.to_string().as_str()), (SendError::CannotResolve, "cannot resolve"));
    }
}

struct SilentResolver;

#[async_trait]
impl Resolve for SilentResolver {
    async fn resolve(&self, _name: &str) -> std::io::Result<Vec<IpAddr>> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn the_deadline_covers_resolution() {
    let begun = Instant::now();
    let client = Client::with_resolver(Policy::default(), Arc::new(SilentResolver));
    assert_eq!(get(&client, "http://a.test/", short()).await.unwrap_err(), SendError::ConnectTimedOut);
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn the_deadline_covers_a_body_that_nothing_reads() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = Client::new(policy("127.0.0.1"));
    let url = OutboundUrl::parse(&format!("http://{}/", listener.local_addr().unwrap()), client.policy()).unwrap();
    // More than both socket buffers can hold.
    let (headers, body) = (Headers::new(), vec![b'a'; 32 * 1024 * 1024].into());
    let request = Request { url: &url, method: Method::POST, headers, body, limits: short() };
    let sending: Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(client.send(request));
    assert_eq!(sending.await.unwrap_err(), SendError::TimedOut);
}

#[tokio::test]
async fn a_request_is_sent_as_it_was_given() {
    let server = TestServer::respond_with(OK);
    let client = Client::new(policy("127.0.0.1"));
    let text = format!("http://ada:p%40ss@127.0.0.1:{}/a/../b%0d%0aX-Evil:%201?token=x%20y&z#part", server.port);
    let url = OutboundUrl::parse(&text, client.policy()).unwrap();
    let mut headers = Headers::new();
    headers.set("X-Ferrite-Event", "push").unwrap();
    let body = Bytes::from_static(b"{\"a\":1}");
    let request = Request { url: &url, method: Method::POST, headers, body, limits: Limits::default() };
    let response = client.send(request).await.unwrap();
    assert_eq!((response.status.as_u16(), response.body.as_ref()), (200, b"ok".as_slice()));
    let port = server.port;
    let request = server.request();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let mut lines: Vec<_> = head.split("\r\n").collect();
    assert_eq!(lines.remove(0), "POST /a/../b%0d%0aX-Evil:%201?token=x%20y&z HTTP/1.1");
    lines.sort_unstable();
    let host = format!("Host: 127.0.0.1:{port}");
    let expected =
        ["Authorization: Basic YWRhOnBAc3M=", "Connection: close", "Content-Length: 7", &host, "X-Ferrite-Event: push"];
    assert_eq!(lines, expected);
    assert_eq!(body, "{\"a\":1}");
}

#[tokio::test]
async fn authorization_that_is_given_replaces_the_users() {
    let server = TestServer::respond_with(OK);
    let client = Client::new(policy("127.0.0.1"));
    let url = OutboundUrl::parse(&format!("http://ada:word@127.0.0.1:{}", server.port), client.policy()).unwrap();
    let mut headers = Headers::new();
    headers.set("authorization", "Bearer x").unwrap();
    let request = Request { url: &url, method: Method::GET, headers, body: Bytes::new(), limits: Limits::default() };
    client.send(request).await.unwrap();
    let request = server.request();
    assert!(request.starts_with("GET / HTTP/1.1\r\n") && request.contains("Authorization: Bearer x\r\n"), "{request}");
    assert!(!request.contains("Basic") && !request.contains("Content-Length"), "{request}");
}

#[tokio::test]
async fn redirects_are_responses() {
    let target = TcpListener::bind("127.0.0.1:0").unwrap();
    let location = format!("http://{}/", target.local_addr().unwrap());
    for status in 301..=308 {
        let response = format!("HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
        let server = TestServer::start(move |stream| stream.write_all(response.as_bytes()));
        let response = get_from(&server, Limits::default()).await.unwrap();
        assert_eq!((response.status.as_u16(), response.headers["location"].as_bytes()), (status, location.as_bytes()));
    }
    assert_unvisited(&target);
}
