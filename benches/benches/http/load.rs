//! The load: clients with one connection each and one request at a time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ferrite_benches::{Failure, percentile_ms};
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::reads::Read;
use crate::site::Site;

/// Requests so far. Requests that must differ use this number.
static REQUESTS: AtomicUsize = AtomicUsize::new(0);

pub(crate) struct Measured {
    /// Ascending.
    times: Vec<Duration>,
    elapsed: Duration,
    /// SQL statements per request, over all services.
    pub(crate) statements: f64,
}

impl Measured {
    /// Number of requests.
    pub(crate) fn requests(&self) -> f64 {
        self.times.len() as f64
    }

    /// Requests per second.
    pub(crate) fn rate(&self) -> f64 {
        self.requests() / self.elapsed.as_secs_f64()
    }

    /// Response time of this percentile, in milliseconds.
    pub(crate) fn percentile_ms(&self, percent: usize) -> f64 {
        percentile_ms(&self.times, percent)
    }
}

/// Sends requests over `connections` for `time`. Fails on an unexpected response.
pub(crate) async fn run(site: &Site, read: Read, connections: usize, time: Duration) -> Result<Measured, Failure> {
    let authority = site.installation.url.trim_start_matches("http://").to_owned();
    let token = format!("token {}", site.installation.token);
    let mut clients = JoinSet::new();
    let begin = Instant::now();
    for _ in 0..connections {
        clients.spawn(client(authority.clone(), token.clone(), read, begin + time));
    }
    let mut times = Vec::new();
    while let Some(ended) = clients.join_next().await {
        times.extend(ended??);
    }
    let elapsed = begin.elapsed();
    times.sort_unstable();
    Ok(Measured { times, elapsed, statements: 0.0 })
}

/// Sends requests over one connection until `end`, at least one, and returns their times.
async fn client(authority: String, token: String, read: Read, end: Instant) -> Result<Vec<Duration>, Failure> {
    let stream = TcpStream::connect(&authority).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    let mut times = Vec::new();
    loop {
        let path = read.path(REQUESTS.fetch_add(1, Ordering::Relaxed));
        let request = Request::get(&path).header("host", &authority).header("authorization", &token);
        let request = request.body(Empty::<Bytes>::new())?;
        let begin = Instant::now();
        sender.ready().await?;
        let answer = sender.send_request(request).await?;
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        times.push(begin.elapsed());
        if status != read.status() {
            return Err(format!("{path}: {status}: {}", String::from_utf8_lossy(&body)).into());
        }
        if Instant::now() >= end {
            return Ok(times);
        }
    }
}
