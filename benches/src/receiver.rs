//! Webhook receivers on loopback.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::Failure;

const POLL_INTERVAL: Duration = Duration::from_millis(20);
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
/// Precedes the id of the new commit in a push payload. Quotes in texts are escaped, so no text
/// contains this.
const COMMIT_FIELD: &[u8] = b"\"after\": \"";

#[derive(Clone, Debug)]
struct Arrival {
    at: Instant,
    /// The commit of a push.
    commit: Option<String>,
}

/// Received deliveries. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Arrivals(Arc<Mutex<Vec<Arrival>>>);

impl Arrivals {
    fn add(&self, arrival: Arrival) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(arrival);
    }

    fn all(&self) -> Vec<Arrival> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Waits for a number of deliveries, and returns the times of the first and the last one.
    pub async fn until(&self, count: usize, timeout: Duration) -> Result<(Instant, Instant), Failure> {
        let begin = Instant::now();
        while self.count() < count {
            if begin.elapsed() > timeout {
                return Err(format!("{} of {count} deliveries arrived", self.count()).into());
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        let times: Vec<_> = self.all().into_iter().map(|arrival| arrival.at).collect();
        let (first, last) = (times.iter().min().copied(), times.iter().max().copied());
        Ok(first.zip(last).unwrap_or((begin, begin)))
    }

    /// Waits for the deliveries of these commits, and returns the time of the first one of each, in
    /// the order of `commits`. Clears all deliveries.
    pub async fn of_commits(&self, commits: &[&str], timeout: Duration) -> Result<Vec<Instant>, Failure> {
        let begin = Instant::now();
        loop {
            // Checking all of them takes time that the service may need.
            let is_enough = self.count() >= commits.len();
            let found = if is_enough { self.times(commits) } else { Vec::new() };
            if found.len() == commits.len() {
                self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
                return Ok(found);
            }
            if begin.elapsed() > timeout {
                return Err(format!("{} of {} pushes were delivered", self.times(commits).len(), commits.len()).into());
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    fn times(&self, commits: &[&str]) -> Vec<Instant> {
        let mut times = HashMap::new();
        for arrival in self.all() {
            if let Some(commit) = arrival.commit {
                times.entry(commit).or_insert(arrival.at);
            }
        }
        commits.iter().filter_map(|commit| times.get(*commit).copied()).collect()
    }
}

pub struct Receiver {
    port: u16,
    _server: JoinSet<()>,
}

impl Receiver {
    /// Starts a receiver that adds requests to `arrivals`, and responds unless `hangs` is set.
    pub async fn start(arrivals: &Arrivals, hangs: bool) -> Result<Self, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let (arrivals, mut server) = (arrivals.clone(), JoinSet::new());
        server.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                while connections.try_join_next().is_some() {}
                connections.spawn(serve(stream, arrivals.clone(), hangs));
            }
        });
        Ok(Self { port, _server: server })
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }
}

/// Serves one connection until the client closes it.
async fn serve(stream: TcpStream, arrivals: Arrivals, hangs: bool) {
    let _ = stream.set_nodelay(true);
    let mut stream = BufReader::new(stream);
    while let Some(body) = read(&mut stream).await {
        arrivals.add(Arrival { at: Instant::now(), commit: commit(&body) });
        if !hangs && stream.write_all(RESPONSE).await.is_err() {
            return;
        }
    }
}

/// Reads a request and returns its body; `None` at the end of the connection.
async fn read(stream: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).ok()?.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"))?;
    let mut body = vec![0; length.trim().parse().ok()?];
    stream.read_exact(&mut body).await.ok()?;
    Some(body)
}

fn commit(body: &[u8]) -> Option<String> {
    let place = body.windows(COMMIT_FIELD.len()).position(|window| window == COMMIT_FIELD)?;
    let value = body[place + COMMIT_FIELD.len()..].split(|byte| *byte == b'"').next()?;
    String::from_utf8(value.to_vec()).ok()
}
