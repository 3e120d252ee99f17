use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::routing::{get, post};
use ferrite_core::net::{Address, Stream};
use ferrite_core::testing::eventually;
use futures_util::StreamExt;
use hyper::client::conn::{http1, http2};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

use super::*;

mod public;

const SHORT: Duration = Duration::from_millis(300);

struct Server {
    address: Address,
    life: Lifecycle,
    served: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.life.stop();
    }
}

async fn start(router: Router, limits: ListenerLimits, grace: Duration) -> Server {
    let life = Lifecycle::new(grace);
    let listener = Address::Tcp("127.0.0.1:0".into()).bind().await.unwrap();
    let address = listener.address().unwrap();
    let served = life.spawn("server", serve(listener, router, limits.into(), life.clone()));
    Server { address, life, served }
}

fn short_header_timeout() -> ListenerLimits {
    ListenerLimits { header_timeout: SHORT, ..ListenerLimits::default() }
}

async fn respond_after(delay: Duration) -> &'static str {
    tokio::time::sleep(delay).await;
    "done"
}

/// Sends `bytes`. Returns the response until the server closes the connection, and the time until
/// then.
async fn exchange(server: &Server, bytes: &[u8]) -> (String, Duration) {
    // The server counts from its accept, which may precede the end of the connect here.
    let started = Instant::now();
    let mut stream = server.address.connect().await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut response = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut response)).await;
    let _ = read.expect("the server closes the connection");
    (String::from_utf8_lossy(&response).into_owned(), started.elapsed())
}

async fn one(server: &Server) -> http1::SendRequest<Body> {
    let stream: Stream = server.address.connect().await.unwrap();
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    server.life.spawn("client", connection);
    sender
}

async fn two(server: &Server) -> http2::SendRequest<Body> {
    let stream: Stream = server.address.connect().await.unwrap();
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    server.life.spawn("client", connection);
    sender
}

fn to(path: &str, body: Body) -> http::Request<Body> {
    http::Request::post(format!("http://localhost{path}")).header("host", "localhost").body(body).unwrap()
}

#[tokio::test]
async fn http_1_and_2_are_served_on_one_port() {
    let router = Router::new().route("/", post(|request: Request| async move { format!("{:?}", request.version()) }));
    let server = start(router, ListenerLimits::default(), SHORT).await;
    let response = one(&server).await.send_request(to("/", Body::empty())).await.unwrap();
    assert_eq!(axum::body::to_bytes(Body::new(response.into_body()), 99).await.unwrap(), "HTTP/1.1");
    let response = two(&server).await.send_request(to("/", Body::empty())).await.unwrap();
    assert_eq!(axum::body::to_bytes(Body::new(response.into_body()), 99).await.unwrap(), "HTTP/2.0");
}

#[tokio::test]
async fn a_client_that_does_not_send_its_headers_in_time_is_cut() {
    let server = start(Router::new(), short_header_timeout(), SHORT).await;
    let beginnings: [&[u8]; 5] =
        [b"", b"P", b"PRI * HTTP/2.0\r\n", b"GET / HTT", b"GET / HTTP/1.1\r\nhost: x\r\nx-slow: "];
    for bytes in beginnings {
        let (response, took) = exchange(&server, bytes).await;
        assert!(took >= SHORT, "{bytes:?}: {took:?}");
        assert!(response.is_empty() || response.starts_with("HTTP/1.1 408"), "{response}");
    }
}

#[tokio::test]
async fn a_slow_response_is_not_cut_by_the_header_timeout() {
    let router = Router::new().route("/", get(|| respond_after(SHORT * 3)));
    let server = start(router, short_header_timeout(), SHORT).await;
    let (response, _) = exchange(&server, b"GET / HTTP/1.0\r\n\r\n").await;
    assert!(response.starts_with("HTTP/1.0 200") && response.ends_with("done"), "{response}");
}

#[tokio::test]
async fn a_client_that_accepts_no_bytes_of_a_response_is_cut() {
    let (dropped_sender, dropped) = tokio::sync::oneshot::channel::<()>();
    let dropped_sender = Arc::new(std::sync::Mutex::new(Some(dropped_sender)));
    let endless = move || {
        let guard = dropped_sender.lock().unwrap().take();
        let stream = futures_util::stream::repeat(Bytes::from(vec![b'x'; 64 * 1024]));
        async move {
            Body::from_stream(stream.map(move |chunk| {
                let _held = &guard;
                Ok::<_, std::convert::Infallible>(chunk)
            }))
        }
    };
    let limits = ListenerLimits { write_timeout: SHORT, ..ListenerLimits::default() };
    let server = start(Router::new().route("/", get(endless)), limits, Duration::from_secs(5)).await;
    let mut stream = server.address.connect().await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(30), dropped).await;
    assert!(ended.expect("the answer is dropped").is_err());
    drop(stream);
}

#[tokio::test]
async fn headers_beyond_the_limit_are_refused() {
    let limits = ListenerLimits { header_bytes: 16 * 1024, ..ListenerLimits::default() };
    let server = start(Router::new(), limits, SHORT).await;
    let long = format!("GET / HTTP/1.1\r\nhost: x\r\nx-long: {}\r\n\r\n", "a".repeat(20_000));
    let mut stream = server.address.connect().await.unwrap();
    stream.write_all(long.as_bytes()).await.unwrap();
    let mut response = [0; 12];
    stream.read_exact(&mut response).await.unwrap();
    assert_eq!(&response, b"HTTP/1.1 431");
    let mut request = to("/", Body::empty());
    request.headers_mut().insert("x-long", "a".repeat(20_000).parse().unwrap());
    let response = two(&server).await.send_request(request).await;
    assert!(response.map_or(true, |response| response.status() == 431));
}

#[tokio::test]
async fn connections_beyond_the_limit_wait() {
    let router = Router::new().route("/", get(|| async { "ok" }));
    let server = start(router, ListenerLimits { connections: 1, ..ListenerLimits::default() }, SHORT).await;
    let first = one(&server).await;
    let mut second = server.address.connect().await.unwrap();
    second.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
    let mut response = String::new();
    assert!(tokio::time::timeout(SHORT, second.read_to_string(&mut response)).await.is_err());
    drop(first);
    tokio::time::timeout(Duration::from_secs(5), second.read_to_string(&mut response)).await.unwrap().unwrap();
    assert!(response.ends_with("ok"), "{response}");
}

#[tokio::test]
async fn an_upload_is_no_faster_than_its_reader() {
    const CHUNK: usize = 64 * 1024;
    const CHUNKS: usize = 512;
    let go = Arc::new(Notify::new());
    let waiting = Arc::clone(&go);
    let count = move |body: Body| async move {
        waiting.notified().await;
        let bytes = body.into_data_stream().fold(0, |sum, chunk| async move { sum + chunk.unwrap().len() }).await;
        bytes.to_string()
    };
    let server = start(Router::new().route("/", post(count)), ListenerLimits::default(), SHORT).await;
    for version in [1, 2] {
        let sent = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&sent);
        let chunks = futures_util::stream::iter(0..CHUNKS).map(move |_| {
            counter.fetch_add(CHUNK, Ordering::SeqCst);
            Ok::<_, std::io::Error>(Bytes::from(vec![0; CHUNK]))
        });
        let request = to("/", Body::from_stream(chunks));
        let (mut one, mut two) = (one(&server).await, two(&server).await);
        let response =
            async { if version == 1 { one.send_request(request).await } else { two.send_request(request).await } };
        let (response, ()) = tokio::join!(response, async {
            eventually("the upload began", || async { sent.load(Ordering::SeqCst) > 0 }).await;
            tokio::time::sleep(SHORT).await;
            let before = sent.load(Ordering::SeqCst);
            assert!(before < CHUNK * CHUNKS / 2, "HTTP/{version}: {before} bytes sent before the first read");
            go.notify_one();
        });
        let bytes = axum::body::to_bytes(Body::new(response.unwrap().into_body()), 99).await.unwrap();
        assert_eq!(bytes, (CHUNK * CHUNKS).to_string());
    }
}

#[tokio::test]
async fn a_request_in_flight_is_answered_and_an_idle_connection_closed() {
    let begun = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&begun);
    let slow = move || {
        counter.fetch_add(1, Ordering::SeqCst);
        respond_after(SHORT)
    };
    let router = Router::new().route("/", post(slow)).route("/quick", post(|| async { "ok" }));
    let mut server = start(router, ListenerLimits::default(), Duration::from_secs(60)).await;
    let mut idle = one(&server).await;
    idle.send_request(to("/quick", Body::empty())).await.unwrap();
    let (mut one, mut two) = (one(&server).await, two(&server).await);
    let (life, started) = (server.life.clone(), Instant::now());
    let (first, second, ()) =
        tokio::join!(one.send_request(to("/", Body::empty())), two.send_request(to("/", Body::empty())), async {
            eventually("both requests are in flight", || async { begun.load(Ordering::SeqCst) == 2 }).await;
            life.stop();
        });
    assert_eq!((first.unwrap().status(), second.unwrap().status()), (http::StatusCode::OK, http::StatusCode::OK));
    (&mut server.served).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(30), "the idle connection does not delay the shutdown");
    assert!(idle.send_request(to("/quick", Body::empty())).await.is_err());
    assert!(server.address.connect().await.is_err());
}

#[tokio::test]
async fn a_draining_server_serves_and_sends_clients_of_http_1_elsewhere() {
    let server = start(Router::new().route("/", post(|| async { "ok" })), ListenerLimits::default(), SHORT).await;
    let (mut first, mut second) = (one(&server).await, two(&server).await);
    let before = first.send_request(to("/", Body::empty())).await.unwrap();
    assert!(!before.headers().contains_key("connection"));
    let life = server.life.clone();
    server.life.spawn("drain", async move { life.drain_and_stop(Duration::from_secs(60)).await });
    while !server.life.is_draining() {
        tokio::task::yield_now().await;
    }
    first.ready().await.unwrap();
    let response = first.send_request(to("/", Body::empty())).await.unwrap();
    assert_eq!(
        (response.status(), &response.headers()["connection"]),
        (http::StatusCode::OK, &"close".parse().unwrap())
    );
    let response = second.send_request(to("/", Body::empty())).await.unwrap();
    assert_eq!(response.status(), http::StatusCode::OK);
    assert!(!response.headers().contains_key("connection"));
    let mut late = one(&server).await;
    assert_eq!(late.send_request(to("/", Body::empty())).await.unwrap().status(), http::StatusCode::OK);
    server.life.stop();
    eventually("the listener is closed", || async { server.address.connect().await.is_err() }).await;
}

#[tokio::test]
async fn a_silent_connection_does_not_delay_the_shutdown() {
    let mut server = start(Router::new(), ListenerLimits::default(), Duration::from_secs(20)).await;
    let _silent = server.address.connect().await.unwrap();
    tokio::time::sleep(SHORT / 3).await;
    server.life.stop();
    tokio::time::timeout(Duration::from_secs(5), &mut server.served).await.expect("the server stops at once").unwrap();
}

#[tokio::test]
async fn requests_are_cut_after_the_grace_period() {
    let router = Router::new().route("/", post(|| respond_after(Duration::from_secs(60))));
    let mut server = start(router, ListenerLimits::default(), SHORT).await;
    let (mut one, mut two) = (one(&server).await, two(&server).await);
    let (life, started) = (server.life.clone(), Instant::now());
    let (first, second, ()) =
        tokio::join!(one.send_request(to("/", Body::empty())), two.send_request(to("/", Body::empty())), async {
            tokio::time::sleep(SHORT / 3).await;
            life.stop();
        });
    assert!(first.is_err() && second.is_err());
    (&mut server.served).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_panic_ends_one_request_and_not_the_server() {
    async fn fault() -> &'static str {
        panic!("a handler panics")
    }
    let router = Router::new().route("/", post(fault)).route("/quick", post(|| async { "ok" }));
    let server = start(router, ListenerLimits::default(), SHORT).await;
    assert!(one(&server).await.send_request(to("/", Body::empty())).await.is_err());
    assert_eq!(one(&server).await.send_request(to("/quick", Body::empty())).await.unwrap().status(), 200);
}

#[tokio::test]
async fn requests_carry_the_address_of_the_client_over_tcp_only() {
    let router = || {
        Router::new().route(
            "/",
            post(|request: Request| async move { format!("{:?}", request.extensions().get::<Peer>().is_some()) }),
        )
    };
    let server = start(router(), ListenerLimits::default(), SHORT).await;
    let response = one(&server).await.send_request(to("/", Body::empty())).await.unwrap();
    assert_eq!(axum::body::to_bytes(Body::new(response.into_body()), 99).await.unwrap(), "true");

    let folder = tempfile::tempdir().unwrap();
    let address = Address::Unix(folder.path().join("socket"));
    let life = Lifecycle::new(SHORT);
    let served =
        life.spawn("server", serve(address.bind().await.unwrap(), router(), ListenerOptions::default(), life.clone()));
    let server = Server { address, life, served };
    let response = one(&server).await.send_request(to("/", Body::empty())).await.unwrap();
    assert_eq!(axum::body::to_bytes(Body::new(response.into_body()), 99).await.unwrap(), "false");
}
