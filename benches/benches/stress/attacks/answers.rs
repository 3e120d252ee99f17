//! Large responses, and clients that read them slowly.

use std::time::Duration;

use ferrite_benches::Failure;
use reqwest::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use super::{Attacker, Outcome};
use crate::material::ATTACKER;

const SLOW_READERS: usize = 19;
/// Bytes per read of a slow reader, and the pause between reads.
const SLOW_READ_BYTES: usize = 1024;
const SLOW_READ_PAUSE: Duration = Duration::from_millis(500);
/// A slow reader gives up after this time.
const SLOW_READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Sends a request and discards the response.
async fn read(attacker: &Attacker, path: &str) -> Result<Outcome, Failure> {
    let mut answer = attacker.request(Method::GET, path).send().await?;
    let (status, mut bytes) = (answer.status().as_u16().to_string(), 0);
    while let Some(chunk) = answer.chunk().await? {
        bytes += chunk.len() as u64;
    }
    Ok(Outcome::new(status, bytes))
}

/// Lists commits with long messages.
pub(super) async fn long_log(attacker: &Attacker) -> Result<Vec<Outcome>, Failure> {
    Ok(vec![read(attacker, &format!("/repos/{ATTACKER}/log/commits?limit=100")).await?])
}

/// Lists a folder with many entries, and one with long paths.
pub(super) async fn folders(attacker: &Attacker) -> Result<Vec<Outcome>, Failure> {
    let deep = format!("deep/{}", vec!["p".repeat(250); 8].join("/"));
    Ok(vec![
        read(attacker, &format!("/repos/{ATTACKER}/folders/git/trees/main?recursive=1")).await?,
        read(attacker, &format!("/repos/{ATTACKER}/folders/contents/flat")).await?,
        read(attacker, &format!("/repos/{ATTACKER}/folders/contents/{deep}")).await?,
    ])
}

/// Lists issues with long bodies.
pub(super) async fn long_issues(attacker: &Attacker) -> Result<Vec<Outcome>, Failure> {
    Ok(vec![read(attacker, &format!("/repos/{ATTACKER}/issues/issues?limit=50")).await?])
}

/// Lists issues over connections that read a kibibyte at a time.
pub(super) async fn slow_readers(attacker: &Attacker) -> Result<Vec<Outcome>, Failure> {
    let mut readers = JoinSet::new();
    for _ in 0..SLOW_READERS {
        let mut stream = attacker.connect().await?;
        let head = attacker.head("GET", &format!("/repos/{ATTACKER}/issues/issues?limit=50"), None, true);
        readers.spawn(async move {
            let mut bytes = 0;
            let reading = async {
                stream.write_all(head.as_bytes()).await?;
                let mut buffer = vec![0; SLOW_READ_BYTES];
                loop {
                    let length = stream.read(&mut buffer).await?;
                    if length == 0 {
                        return Ok::<_, std::io::Error>(());
                    }
                    bytes += length as u64;
                    tokio::time::sleep(SLOW_READ_PAUSE).await;
                }
            };
            let answer = match tokio::time::timeout(SLOW_READ_TIMEOUT, reading).await {
                Err(_) => "still served",
                Ok(Ok(())) => "ended by the server",
                Ok(Err(_)) => "cut",
            };
            Outcome::new(answer, bytes)
        });
    }
    Ok(readers.join_all().await)
}
