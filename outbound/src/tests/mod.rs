//! Tests of the whole client over local sockets.

mod addresses;
mod connections;
mod responses;
mod tls;

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::Method;

use crate::{Client, Headers, Limits, OutboundUrl, Policy, Request, Resolve, Response, SendError};

/// A server on loopback that answers one connection in its own thread.
struct TestServer {
    port: u16,
    thread: JoinHandle<String>,
}

impl TestServer {
    /// Reads a request, then calls `respond`. A failed write ends the connection.
    fn start(respond: impl FnOnce(&mut TcpStream) -> std::io::Result<()> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let thread = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let request = read_request(&mut stream);
            respond(&mut stream).ok();
            request
        });
        Self { port, thread }
    }

    fn respond_with(response: impl Into<Vec<u8>>) -> Self {
        let response = response.into();
        Self::start(move |stream| stream.write_all(&response))
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hook", self.port)
    }

    /// Returns the request once the connection has ended.
    fn request(self) -> String {
        self.thread.join().unwrap()
    }
}

fn read_request(stream: &mut impl Read) -> String {
    let (mut request, mut byte) = (Vec::new(), [0]);
    while !request.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
        request.push(byte[0]);
    }
    let head = String::from_utf8(request).unwrap();
    let length =
        head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).map_or(0, |text| text.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    head + std::str::from_utf8(&body).unwrap()
}

fn assert_unvisited(listener: &TcpListener) {
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

/// Returns address lists in turn, the last one forever.
struct TestResolver {
    answers: Vec<Vec<IpAddr>>,
    asked: AtomicUsize,
}

impl TestResolver {
    fn new(answers: &[&[&str]]) -> Arc<Self> {
        let parse = |answer: &&[&str]| answer.iter().map(|address| address.parse().unwrap()).collect();
        Arc::new(Self { answers: answers.iter().map(parse).collect(), asked: AtomicUsize::new(0) })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Resolve for TestResolver {
    async fn resolve(&self, _name: &str) -> std::io::Result<Vec<IpAddr>> {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        self.answers.get(asked).or(self.answers.last()).cloned().ok_or_else(|| ErrorKind::NotFound.into())
    }
}

fn policy(allowed: &str) -> Policy {
    Policy::new(allowed.parse().unwrap())
}

/// Limits for tests whose server does not stop by itself.
fn short() -> Limits {
    Limits { total: Duration::from_secs(1), ..Limits::default() }
}

async fn get(client: &Client, url: &str, limits: Limits) -> Result<Response, SendError> {
    let url = OutboundUrl::parse(url, client.policy()).unwrap();
    let request = Request { url: &url, method: Method::GET, headers: Headers::new(), body: Bytes::new(), limits };
    client.send(request).await
}

/// Sends a request to a local server, which the policy permits.
async fn get_from(server: &TestServer, limits: Limits) -> Result<Response, SendError> {
    get(&Client::new(policy("127.0.0.1")), &server.url(), limits).await
}
