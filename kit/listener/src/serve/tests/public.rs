//! Public listeners over real sockets: limits per address, idle connections, slow headers and slow
//! readers.

use std::net::SocketAddr;

use hyper::client::conn::http2::Builder as Http2Client;
use tokio::net::{TcpSocket, TcpStream};

use super::*;

const CLOSED_TIMEOUT: Duration = Duration::from_secs(10);

fn public(change: impl FnOnce(&mut ListenerLimits, &mut PublicLimits)) -> ListenerLimits {
    let mut public = PublicLimits::default();
    let mut limits = ListenerLimits::public(public);
    change(&mut limits, &mut public);
    ListenerLimits { public: Some(public), ..limits }
}

fn ok() -> Router {
    Router::new().route("/", get(|| async { "ok" }).post(|| async { "ok" }))
}

async fn connect_from(address: [u8; 4], server: &Server) -> TcpStream {
    let Address::Tcp(authority) = &server.address else { panic!("a TCP listener") };
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 << 10).unwrap();
    socket.bind(SocketAddr::from((address, 0))).unwrap();
    socket.connect(authority.parse().unwrap()).await.unwrap()
}

/// Whether the server responds to a request on `stream`. A refused connection ends or is reset.
async fn is_answered(stream: &mut TcpStream) -> bool {
    let exchanged = async {
        stream.write_all(b"GET / HTTP/1.1\r\nhost: test\r\n\r\n").await?;
        let mut response = Vec::new();
        while !response.ends_with(b"\r\n\r\nok") && stream.read_buf(&mut response).await? > 0 {}
        Ok::<_, std::io::Error>(response)
    };
    let response = tokio::time::timeout(CLOSED_TIMEOUT, exchanged).await.unwrap();
    response.is_ok_and(|response| response.starts_with(b"HTTP/1.1 200"))
}

async fn closed(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    let _ = tokio::time::timeout(CLOSED_TIMEOUT, stream.read_to_end(&mut rest)).await.expect("the server closes");
}

#[tokio::test]
async fn an_address_with_too_many_connections_is_refused_and_another_is_served() {
    let limits = public(|_, public| public.connections_per_address = 2);
    let server = start(ok(), limits, SHORT).await;
    let (mut first, mut second) =
        (connect_from([127, 0, 0, 2], &server).await, connect_from([127, 0, 0, 2], &server).await);
    assert!(is_answered(&mut first).await && is_answered(&mut second).await);
    assert!(!is_answered(&mut connect_from([127, 0, 0, 2], &server).await).await);
    assert!(is_answered(&mut connect_from([127, 0, 0, 3], &server).await).await);
    drop(first);
    // The server notices the closed connection a moment later.
    let deadline = Instant::now() + CLOSED_TIMEOUT;
    while !is_answered(&mut connect_from([127, 0, 0, 2], &server).await).await {
        assert!(Instant::now() < deadline, "the place of the closed connection is not given away");
    }
}

#[tokio::test]
async fn an_idle_connection_makes_room_for_a_new_one() {
    let limits = public(|limits, _| limits.connections = 2);
    let server = start(ok(), limits, SHORT).await;
    let (mut first, mut second) =
        (connect_from([127, 0, 0, 2], &server).await, connect_from([127, 0, 0, 3], &server).await);
    assert!(is_answered(&mut first).await);
    tokio::time::sleep(SHORT / 5).await;
    assert!(is_answered(&mut second).await);
    let mut third = connect_from([127, 0, 0, 4], &server).await;
    assert!(is_answered(&mut third).await);
    // The one that was idle for longest is closed, long before the idle timeout.
    closed(&mut first).await;
    assert!(is_answered(&mut second).await);
}

#[tokio::test]
async fn idle_connections_are_closed_whether_they_ping_or_not() {
    let limits = public(|_, public| public.idle_timeout = SHORT);
    let router = ok().route("/slow", get(|| respond_after(SHORT * 4)));
    let server = start(router, limits, SHORT).await;
    let mut one = connect_from([127, 0, 0, 2], &server).await;
    // The idle time begins at the end of a response, which the client may read late. Count from its
    // request.
    let asked = Instant::now();
    assert!(is_answered(&mut one).await);
    let busy = exchange(&server, b"GET /slow HTTP/1.0\r\n\r\n");
    let ping = async {
        let stream = connect_from([127, 0, 0, 2], &server).await;
        let mut client = Http2Client::new(TokioExecutor::new());
        client.timer(TokioTimer::new()).keep_alive_interval(SHORT / 5).keep_alive_while_idle(true);
        let (mut sender, connection) = client.handshake(TokioIo::new(stream)).await.unwrap();
        let connection = server.life.spawn("client", connection);
        let asked = Instant::now();
        sender.send_request(to("/", Body::empty())).await.unwrap();
        let _ = tokio::time::timeout(CLOSED_TIMEOUT, connection).await.expect("the server closes").unwrap();
        asked.elapsed()
    };
    let quiet = async {
        closed(&mut one).await;
        asked.elapsed()
    };
    let (one, two, (response, _)) = tokio::join!(quiet, ping, busy);
    assert!(one >= SHORT / 2 && two >= SHORT / 2, "{one:?} {two:?}");
    assert!(response.ends_with("done"), "a request that takes longer is no idle time: {response}");
}

#[tokio::test]
async fn a_header_that_drips_is_cut_and_time_between_requests_is_no_header() {
    let limits = public(|limits, _| limits.header_timeout = SHORT);
    let server = start(ok(), limits, SHORT).await;
    let mut stream = connect_from([127, 0, 0, 2], &server).await;
    assert!(is_answered(&mut stream).await);
    tokio::time::sleep(SHORT * 2).await;
    assert!(is_answered(&mut stream).await, "an idle connection has the idle timeout");
    let started = Instant::now();
    while stream.write_all(b"G").await.is_ok() {
        assert!(started.elapsed() < CLOSED_TIMEOUT, "it drips for ever");
        tokio::time::sleep(SHORT / 10).await;
    }
}

#[tokio::test]
async fn a_client_that_never_opens_its_window_is_cut() {
    let router = Router::new().route("/", post(|| async { vec![b'x'; 1 << 20] }));
    let limits = public(|limits, _| limits.write_timeout = SHORT);
    let server = start(router, limits, SHORT).await;
    let stream = server.address.connect().await.unwrap();
    let mut client = Http2Client::new(TokioExecutor::new());
    client.timer(TokioTimer::new()).keep_alive_interval(SHORT / 5).initial_stream_window_size(1000);
    let (mut sender, connection) = client.handshake(TokioIo::new(stream)).await.unwrap();
    let connection = server.life.spawn("client", connection);
    let started = Instant::now();
    let response = sender.send_request(to("/", Body::empty())).await.unwrap();
    let _ = tokio::time::timeout(CLOSED_TIMEOUT, connection).await.expect("the server closes").unwrap();
    assert!(started.elapsed() >= SHORT / 2, "{:?}", started.elapsed());
    assert!(axum::body::to_bytes(Body::new(response.into_body()), usize::MAX).await.is_err());
}

#[tokio::test]
async fn a_client_that_takes_a_long_response_slowly_but_at_the_pace_is_served() {
    let router = Router::new().route("/", post(|| async { vec![b'x'; 1 << 20] }));
    let limits = public(|limits, _| limits.write_timeout = SHORT);
    let server = start(router, limits, SHORT).await;
    let stream = server.address.connect().await.unwrap();
    let mut client = Http2Client::new(TokioExecutor::new());
    let (mut sender, connection) =
        client.initial_stream_window_size(64 << 10).handshake(TokioIo::new(stream)).await.unwrap();
    server.life.spawn("client", connection);
    let mut response = sender.send_request(to("/", Body::empty())).await.unwrap().into_body();
    let mut length = 0;
    while let Some(frame) = http_body_util::BodyExt::frame(&mut response).await {
        length += frame.unwrap().into_data().unwrap().len();
        tokio::time::sleep(SHORT / 20).await;
    }
    assert_eq!(length, 1 << 20);
}

#[tokio::test]
async fn requests_beyond_the_streams_of_a_connection_wait() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (in_flight, highest) = (Arc::clone(&now), Arc::clone(&most));
    let handler = move || async move {
        highest.fetch_max(in_flight.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        tokio::time::sleep(SHORT / 5).await;
        in_flight.fetch_sub(1, Ordering::SeqCst);
    };
    let server = start(Router::new().route("/", post(handler)), public(|limits, _| limits.streams = 4), SHORT).await;
    let sender = two(&server).await;
    // The first response brings the settings of the server.
    sender.clone().send_request(to("/", Body::empty())).await.unwrap();
    let requests = (0..20).map(|_| {
        let mut sender = sender.clone();
        async move { sender.send_request(to("/", Body::empty())).await.unwrap().status() }
    });
    assert!(futures_util::future::join_all(requests).await.iter().all(|status| *status == 200));
    assert_eq!((most.load(Ordering::SeqCst), now.load(Ordering::SeqCst)), (4, 0));
}

#[tokio::test]
async fn an_old_connection_is_told_to_go_away_after_its_request() {
    let limits = public(|_, public| public.max_age = SHORT);
    let server = start(ok().route("/slow", get(|| respond_after(SHORT * 3))), limits, SHORT).await;
    let mut stream = server.address.connect().await.unwrap();
    stream.write_all(b"GET /slow HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
    let mut response = String::new();
    tokio::time::timeout(CLOSED_TIMEOUT, stream.read_to_string(&mut response)).await.unwrap().unwrap();
    assert!(response.starts_with("HTTP/1.1 200") && response.ends_with("done"), "{response}");
    assert!(response.contains("connection: close"), "{response}");
}

#[tokio::test]
async fn connections_of_a_trusted_proxy_are_not_bounded_by_its_address() {
    let limits = public(|_, public| public.connections_per_address = 1);
    let life = Lifecycle::new(SHORT);
    let listener = Address::Tcp("127.0.0.1:0".into()).bind().await.unwrap();
    let address = listener.address().unwrap();
    let transport = crate::Transport::default().with_proxies("127.0.0.2".parse().unwrap(), false);
    let served = life.spawn("server", serve(listener, ok(), ListenerOptions { limits, transport }, life.clone()));
    let server = Server { address, life, served };
    let mut proxied = Vec::new();
    for _ in 0..3 {
        let mut stream = connect_from([127, 0, 0, 2], &server).await;
        assert!(is_answered(&mut stream).await);
        proxied.push(stream);
    }
    let _other = connect_from([127, 0, 0, 3], &server).await;
    assert!(!is_answered(&mut connect_from([127, 0, 0, 3], &server).await).await);
}
