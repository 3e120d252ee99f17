//! Writes that leave much data on the server: stored texts, stored responses, deliveries, and
//! imports from slow sources.

use std::time::Duration;

use ferrite_benches::Failure;
use reqwest::{Method, StatusCode};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::{Attacker, Outcome};
use crate::material::ATTACKER;

/// Writes per round.
const WRITES: usize = 20;
const NOTE_BYTES: usize = 1_000_000;
const SLOW_IMPORTS: usize = 3;
/// Time that a client waits for its import.
const IMPORT_WAIT: Duration = Duration::from_secs(20);
const DRIP_INTERVAL: Duration = Duration::from_secs(1);

/// Sends a request; the outcome is its status.
async fn send(request: reqwest::RequestBuilder) -> Result<Outcome, Failure> {
    let response = request.send().await?;
    let status = response.status().as_u16().to_string();
    Ok(Outcome::new(status, response.bytes().await?.len() as u64))
}

/// Rewrites the notes of a release, each time with a new idempotency key.
pub(super) async fn release_notes(attacker: &Attacker, round: usize) -> Result<Vec<Outcome>, Failure> {
    let path = format!("/repos/{ATTACKER}/issues/releases/{}", attacker.release);
    let mut outcomes = Vec::new();
    for number in 0..WRITES {
        let character = if number % 2 == 0 { "a" } else { "b" };
        let request = attacker.request(Method::PATCH, &path).header("idempotency-key", format!("{round}-{number}"));
        outcomes.push(send(request.json(&json!({ "body": character.repeat(NOTE_BYTES) }))).await?);
    }
    Ok(outcomes)
}

/// Replays all deliveries of a webhook.
pub(super) async fn replays(attacker: &Attacker) -> Result<Vec<Outcome>, Failure> {
    let path = format!("/repos/{ATTACKER}/issues/hooks/{}/replay", attacker.hook);
    let span = json!({ "from": "2000-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z", "new_ids": true });
    Ok(vec![send(attacker.request(Method::POST, &path).json(&span)).await?])
}

/// Imports repositories from a source that sends a byte a second.
pub(super) async fn slow_imports(attacker: &Attacker, round: usize) -> Result<Vec<Outcome>, Failure> {
    let mut imports = JoinSet::new();
    for number in 0..SLOW_IMPORTS {
        let body = json!({
            "clone_addr": attacker.slow_source.as_ref().map(|source| &source.url),
            "uid": attacker.user,
            "repo_name": format!("slow-{round}-{number}"),
        });
        let request = attacker.request(Method::POST, "/repos/migrate").json(&body).timeout(IMPORT_WAIT);
        imports.spawn(async move {
            match request.send().await {
                Ok(response) if response.status() == StatusCode::ACCEPTED => Outcome::new("202", 0),
                Ok(response) => Outcome::new(response.status().as_u16().to_string(), 0),
                Err(error) if error.is_timeout() => Outcome::new("waiting", 0),
                Err(_) => Outcome::new("no answer", 0),
            }
        });
    }
    Ok(imports.join_all().await)
}

/// A remote that never ends its first response. Stops on drop.
pub(crate) struct SlowSource {
    pub(crate) url: String,
    _server: JoinSet<()>,
}

impl SlowSource {
    pub(crate) async fn start() -> Result<Self, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/slow.git", listener.local_addr()?);
        let mut server = JoinSet::new();
        server.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                while connections.try_join_next().is_some() {}
                connections.spawn(drip(stream));
            }
        });
        Ok(Self { url, _server: server })
    }
}

async fn drip(mut stream: TcpStream) {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-advertisement\r\n\
                Connection: close\r\n\r\n001e# service=git-upload-pack\n0000000eversion 2\nfff0agent=";
    let mut is_sent = stream.write_all(head.as_bytes()).await.is_ok();
    while is_sent {
        tokio::time::sleep(DRIP_INTERVAL).await;
        is_sent = stream.write_all(b"a").await.is_ok();
    }
}
