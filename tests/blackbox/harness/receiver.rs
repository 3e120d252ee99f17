//! A webhook receiver on loopback, and the verification of signatures.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Settings that allow deliveries to loopback, and retry a failed delivery after a second.
pub(crate) const LOOPBACK: [(&str, &str); 2] =
    [("FERRITE_OUTBOUND_ALLOW", "127.0.0.0/8,::1,localhost"), ("FERRITE_HOOK_RETRY_SECONDS", "1,1,1,1,1,1")];
const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) path: String,
    /// By lower-case name.
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Vec<u8>,
    pub(crate) status: u16,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub(crate) fn event(&self) -> &str {
        self.header("x-gogs-event")
    }

    pub(crate) fn id(&self) -> &str {
        self.header("x-gogs-delivery")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// Response to a delivery: a status, and a delay before it.
type Respond = dyn Fn(&Received) -> (u16, Duration) + Send + Sync;

/// A server that records deliveries. Ends with the test.
pub(crate) struct Receiver {
    port: u16,
    received: Arc<Mutex<Vec<Received>>>,
    _server: JoinSet<()>,
}

impl Receiver {
    pub(crate) async fn start() -> Self {
        Self::answering(|_| (200, Duration::ZERO)).await
    }

    /// Starts a receiver that responds as `respond` decides.
    pub(crate) async fn answering(respond: impl Fn(&Received) -> (u16, Duration) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let received = Arc::default();
        let (notes, respond): (_, Arc<Respond>) = (Arc::clone(&received), Arc::new(respond));
        let mut server = JoinSet::new();
        server.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, Arc::clone(&notes), Arc::clone(&respond)));
            }
        });
        Self { port, received, _server: server }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub(crate) fn all(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    pub(crate) async fn until(&self, wanted: impl Fn(&[Received]) -> bool) -> Vec<Received> {
        let deadline = tokio::time::Instant::now() + TIMEOUT;
        loop {
            let all = self.all();
            if wanted(&all) {
                return all;
            }
            let seen: Vec<_> = all.iter().map(|one| (one.event(), one.status)).collect();
            assert!(tokio::time::Instant::now() < deadline, "deliveries did not arrive: {seen:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn serve(stream: TcpStream, notes: Arc<Mutex<Vec<Received>>>, respond: Arc<Respond>) {
    let mut stream = BufReader::new(stream);
    let Some(mut received) = read(&mut stream).await else { return };
    let (status, wait) = respond(&received);
    tokio::time::sleep(wait).await;
    received.status = status;
    notes.lock().unwrap().push(received);
    let response = format!("HTTP/1.1 {status} Told\r\nContent-Length: 5\r\nConnection: close\r\n\r\nnoted");
    let _ = stream.write_all(response.as_bytes()).await;
    let _ = stream.shutdown().await;
}

/// `None` at the end of the connection.
async fn read(stream: &mut BufReader<TcpStream>) -> Option<Received> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.trim_end().split("\r\n");
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let header = |line: &str| line.split_once(':').map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()));
    let headers: HashMap<_, _> = lines.filter_map(header).collect();
    let mut body = vec![0; headers.get("content-length")?.parse().ok()?];
    stream.read_exact(&mut body).await.ok()?;
    Some(Received { path, headers, body, status: 0 })
}

pub(crate) fn hmac(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    const BLOCK_BYTES: usize = 64;
    let mut block = [0; BLOCK_BYTES];
    if key.len() > BLOCK_BYTES {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let hash = |pad: u8, parts: &[&[u8]]| {
        let mut hash = Sha256::new_with_prefix(block.map(|byte| byte ^ pad));
        parts.iter().for_each(|part| hash.update(part));
        hash.finalize().to_vec()
    };
    hash(0x5c, &[&hash(0x36, parts)])
}
