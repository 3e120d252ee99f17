use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use super::{TestServer, get_from, short};
use crate::{BodyEnd, Limits, Response, SendError};

const MAX_READ_BYTES: usize = 1024 * 1024;
const MAX_KEPT_BYTES: usize = 64 * 1024;

/// Writes `piece` until the client closes the connection, which ends the test.
fn write_for_ever(stream: &mut TcpStream, piece: &[u8]) -> std::io::Result<()> {
    loop {
        stream.write_all(piece)?;
    }
}

/// Writes a byte now and then until the client closes the connection.
fn drip(stream: &mut TcpStream, byte: u8) -> std::io::Result<()> {
    loop {
        stream.write_all(&[byte])?;
        thread::sleep(Duration::from_millis(20));
    }
}

async fn get_endless(head: &'static str, piece: Vec<u8>, limits: Limits) -> Result<Response, SendError> {
    let server = TestServer::start(move |stream| {
        stream.write_all(head.as_bytes())?;
        write_for_ever(stream, &piece)
    });
    let response = get_from(&server, limits).await;
    server.request();
    response
}

#[tokio::test]
async fn an_endless_body_is_cut_and_its_connection_closed() {
    let chunk = [b"10000\r\n".as_slice(), &[b'a'; 65536], b"\r\n"].concat();
    for (head, piece) in [
        ("HTTP/1.1 200 OK\r\n\r\n", vec![b'a'; 65536]),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n", vec![b'a'; 65536]),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", chunk),
    ] {
        let response = get_endless(head, piece, Limits::default()).await.unwrap();
        assert_eq!((response.status.as_u16(), response.body_end), (200, BodyEnd::Limit), "{head}");
        assert_eq!((response.body_read_bytes, response.body.len()), (MAX_READ_BYTES, MAX_KEPT_BYTES), "{head}");
        assert!(response.is_body_cut() && response.body.iter().all(|byte| *byte == b'a'), "{head}");
    }
}

#[tokio::test]
async fn framing_counts_as_body() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let limits = Limits { max_body_read_bytes: MAX_KEPT_BYTES, ..Limits::default() };
    let response = get_endless(head, b"1\r\na\r\n".repeat(1000), limits).await.unwrap();
    assert_eq!(response.body_end, BodyEnd::Limit);
    assert!(response.body_read_bytes < MAX_KEPT_BYTES, "{}", response.body_read_bytes);
}

#[tokio::test]
async fn a_body_at_the_limits_is_complete() {
    for (length, kept, end) in [
        (0, 0, BodyEnd::Complete),
        (MAX_KEPT_BYTES, MAX_KEPT_BYTES, BodyEnd::Complete),
        (MAX_KEPT_BYTES + 1, MAX_KEPT_BYTES, BodyEnd::Complete),
        (MAX_READ_BYTES, MAX_KEPT_BYTES, BodyEnd::Complete),
        (MAX_READ_BYTES + 1, MAX_KEPT_BYTES, BodyEnd::Limit),
    ] {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
        let server = TestServer::respond_with([head.as_bytes(), &vec![b'a'; length]].concat());
        let response = get_from(&server, Limits::default()).await.unwrap();
        assert_eq!((response.body.len(), response.body_end), (kept, end), "{length}");
        assert_eq!(response.body_read_bytes, length.min(MAX_READ_BYTES));
        assert_eq!(response.is_body_cut(), length > kept);
    }
}

#[tokio::test]
async fn an_endless_head_fails() {
    for (head, piece) in [
        ("HTTP/1.1 200 OK\r\n", b"X-Line: a\r\n".repeat(100)),
        ("HTTP/1.1 200 OK\r\nX-Long: ", vec![b'a'; 4096]),
        ("HTTP/1.1 200 ", vec![b'a'; 4096]),
        ("", b"HTTP/1.1 100 Continue\r\n\r\n".repeat(100)),
    ] {
        let failure = get_endless(head, piece, Limits::default()).await.unwrap_err();
        assert_eq!(failure, SendError::HeadTooLarge, "{head:?}");
    }
    let long = |kib: usize| format!("HTTP/1.1 200 OK\r\nX-Long: {}\r\n\r\n", "a".repeat(kib * 1024));
    assert_eq!(get_from(&TestServer::respond_with(long(60)), Limits::default()).await.unwrap().status, 200);
    let failure = get_from(&TestServer::respond_with(long(65)), Limits::default()).await.unwrap_err();
    assert_eq!((failure, failure.to_string().as_str()), (SendError::HeadTooLarge, "response head is too large"));
}

#[tokio::test]
async fn slow_responses_are_cut_at_the_deadline() {
    for head in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nX-Slow: "] {
        let begun = Instant::now();
        let server = TestServer::start(move |stream| {
            stream.write_all(head.as_bytes())?;
            drip(stream, if head.is_empty() { b'\n' } else { b'a' })
        });
        assert_eq!(get_from(&server, short()).await.unwrap_err(), SendError::TimedOut, "{head:?}");
        assert!(begun.elapsed() < Duration::from_secs(9), "{head:?}");
        server.request();
    }
    let begun = Instant::now();
    let server = TestServer::start(|stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")?;
        drip(stream, b'a')
    });
    // Enough for the head and part of the body, even on a busy machine.
    let limits = Limits { total: Duration::from_secs(3), ..Limits::default() };
    let response = get_from(&server, limits).await.unwrap();
    assert_eq!((response.status.as_u16(), response.body_end), (200, BodyEnd::TimedOut));
    assert!(response.body_read_bytes > 0 && response.is_body_cut());
    assert!(begun.elapsed() < Duration::from_secs(9));
    server.request();
}

#[tokio::test]
async fn a_silent_server_times_out() {
    let server = TestServer::start(|stream| {
        let wait = std::io::Read::read(stream, &mut [0]);
        wait.map(|_| ())
    });
    let failure = get_from(&server, short()).await.unwrap_err();
    assert_eq!((failure, failure.to_string().as_str()), (SendError::TimedOut, "timed out"));
    server.request();
}

#[tokio::test]
async fn bytes_that_are_no_response_fail() {
    for bytes in [
        "SSH-2.0-OpenSSH_9.9\r\n",
        "<html></html>\r\n\r\n",
        "HTTP/2 200\r\n\r\n",
        "HTTP/1.1 2x0 OK\r\n\r\n",
        "\0\0\0\r\n\r\n",
    ] {
        let failure = get_from(&TestServer::respond_with(bytes), Limits::default()).await.unwrap_err();
        assert_eq!((failure, failure.to_string().as_str()), (SendError::NotHttp, "response is not HTTP"), "{bytes:?}");
    }
    let framing = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab";
    assert_eq!(get_from(&TestServer::respond_with(framing), Limits::default()).await.unwrap_err(), SendError::NotHttp);
    for bytes in ["", "HTTP/1.1 200 OK\r\nX-Part"] {
        let failure = get_from(&TestServer::respond_with(bytes), Limits::default()).await.unwrap_err();
        assert_eq!(
            (failure, failure.to_string().as_str()),
            (SendError::ConnectionLost, "connection lost"),
            "{bytes:?}"
        );
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_is_kept_up_to_there() {
    for response in [
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nxyz\r\n",
    ] {
        let response = get_from(&TestServer::respond_with(response), Limits::default()).await.unwrap();
        assert_eq!((response.body.as_ref(), response.body_end), (b"abc".as_slice(), BodyEnd::Broken));
    }
}

#[tokio::test]
async fn bodies_are_not_decompressed() {
    let response = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x08ab";
    let response = get_from(&TestServer::respond_with(response), Limits::default()).await.unwrap();
    assert_eq!(response.body.as_ref(), b"\x1f\x08ab");
}

#[tokio::test]
async fn a_body_without_a_length_ends_with_the_connection() {
    let response =
        get_from(&TestServer::respond_with("HTTP/1.0 410 Gone\r\n\r\nbye"), Limits::default()).await.unwrap();
    assert_eq!(
        (response.status.as_u16(), response.body.as_ref(), response.body_end),
        (410, b"bye".as_slice(), BodyEnd::Complete)
    );
}
