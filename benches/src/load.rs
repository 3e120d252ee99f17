//! HTTP clients with one connection each and one request at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::{Failure, percentile_ms};

/// Requests so far of this process. Requests that must differ use this number.
static REQUESTS: AtomicUsize = AtomicUsize::new(0);

/// The requests of the clients.
pub struct Requests {
    pub url: String,
    pub headers: Vec<(&'static str, String)>,
    /// The path and query of the request with a number.
    pub path: Box<dyn Fn(usize) -> String + Send + Sync>,
    /// The expected status of the responses.
    pub status: u16,
}

pub struct Measured {
    /// Ascending.
    times: Vec<Duration>,
    elapsed: Duration,
    bytes: usize,
}

impl Measured {
    /// Number of requests.
    pub fn requests(&self) -> f64 {
        self.times.len() as f64
    }

    /// Requests per second.
    pub fn rate(&self) -> f64 {
        self.requests() / self.elapsed.as_secs_f64()
    }

    /// Response time of this percentile, in milliseconds.
    pub fn percentile_ms(&self, percent: usize) -> f64 {
        percentile_ms(&self.times, percent)
    }

    /// Mean size of the responses' bodies.
    pub fn bytes_of_each(&self) -> f64 {
        self.bytes as f64 / self.requests().max(1.0)
    }
}

/// Sends requests over `connections` for `time`, at least one over each. Fails on an unexpected
/// status.
pub async fn run(requests: &Arc<Requests>, connections: usize, time: Duration) -> Result<Measured, Failure> {
    let mut clients = JoinSet::new();
    let begin = Instant::now();
    for _ in 0..connections {
        clients.spawn(client(Arc::clone(requests), begin + time));
    }
    let (mut times, mut bytes) = (Vec::new(), 0);
    while let Some(ended) = clients.join_next().await {
        let (its_times, its_bytes) = ended??;
        times.extend(its_times);
        bytes += its_bytes;
    }
    let elapsed = begin.elapsed();
    times.sort_unstable();
    Ok(Measured { times, elapsed, bytes })
}

/// Sends requests over one connection until `end`. Returns their times, and the bytes of all bodies.
async fn client(requests: Arc<Requests>, end: Instant) -> Result<(Vec<Duration>, usize), Failure> {
    let authority = requests.url.trim_start_matches("http://");
    let stream = TcpStream::connect(authority).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    let (mut times, mut bytes) = (Vec::new(), 0);
    loop {
        let path = (requests.path)(REQUESTS.fetch_add(1, Ordering::Relaxed));
        let mut request = Request::get(&path).header("host", authority);
        for (name, value) in &requests.headers {
            request = request.header(*name, value);
        }
        let request = request.body(Empty::<Bytes>::new())?;
        let begin = Instant::now();
        sender.ready().await?;
        let answer = sender.send_request(request).await?;
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        times.push(begin.elapsed());
        bytes += body.len();
        if status != requests.status {
            return Err(format!("{path}: {status}: {}", String::from_utf8_lossy(&body)).into());
        }
        if Instant::now() >= end {
            return Ok((times, bytes));
        }
    }
}
