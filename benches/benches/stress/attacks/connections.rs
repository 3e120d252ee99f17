//! Connections without requests, with requests that never end, and with very many streams.

use std::time::Duration;

use bytes::Bytes;
use ferrite_benches::Failure;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::{Attacker, Outcome};

const IDLE_CONNECTIONS: usize = 1_500;
const DRIPPING_CONNECTIONS: usize = 500;
const STREAMS: usize = 1_024;
/// Bytes that each stream sends, and declares.
const STREAM_BYTES: usize = 64 << 10;
/// Time for which connections are held.
const HOLD: Duration = Duration::from_secs(20);
const DRIP_PAUSE: Duration = Duration::from_secs(1);

pub(super) async fn idle(attacker: &Attacker) -> Result<Vec<Outcome>, Failure> {
    hold(attacker, IDLE_CONNECTIONS, None).await
}

pub(super) async fn dripping(attacker: &Attacker) -> Result<Vec<Outcome>, Failure> {
    hold(attacker, DRIPPING_CONNECTIONS, Some("GET /api/v1/user HTTP/1.1\r\nX-Padding: ")).await
}

async fn hold(attacker: &Attacker, count: usize, begin: Option<&'static str>) -> Result<Vec<Outcome>, Failure> {
    let mut held = JoinSet::new();
    let mut outcomes = Vec::new();
    for _ in 0..count {
        match attacker.connect().await {
            Ok(stream) => {
                held.spawn(hold_one(stream, begin));
            }
            Err(_) => outcomes.push(Outcome::new("no connection", 0)),
        }
    }
    outcomes.append(&mut held.join_all().await);
    Ok(outcomes)
}

async fn hold_one(mut stream: TcpStream, begin: Option<&'static str>) -> Outcome {
    let holding = async {
        let Some(begin) = begin else {
            let mut byte = [0];
            let _ = stream.read(&mut byte).await;
            return;
        };
        if stream.write_all(begin.as_bytes()).await.is_err() {
            return;
        }
        loop {
            tokio::time::sleep(DRIP_PAUSE).await;
            if stream.write_all(b"x").await.is_err() {
                return;
            }
        }
    };
    let is_held = tokio::time::timeout(HOLD, holding).await.is_err();
    Outcome::new(if is_held { "held" } else { "closed" }, 0)
}

/// Opens streams with endless bodies, without credentials.
pub(super) async fn streams(attacker: &Attacker) -> Result<Vec<Outcome>, Failure> {
    let (sender, connection) = h2::client::handshake(attacker.connect().await?).await?;
    let mut driver = JoinSet::new();
    driver.spawn(async move {
        let _ = connection.await;
    });
    let mut all = JoinSet::new();
    let uri = format!("{}/api/v1/user/repos", attacker.url);
    for _ in 0..STREAMS {
        let (sender, uri) = (sender.clone(), uri.clone());
        all.spawn(async move {
            let answer = one_stream(sender, &uri);
            let text = match tokio::time::timeout(HOLD, answer).await {
                Err(_) => "no answer".to_owned(),
                Ok(Err(_)) => "cut".to_owned(),
                Ok(Ok(status)) => status,
            };
            Outcome::new(text, 0)
        });
    }
    let outcomes = all.join_all().await;
    driver.shutdown().await;
    Ok(outcomes)
}

async fn one_stream(sender: h2::client::SendRequest<Bytes>, uri: &str) -> Result<String, Failure> {
    let mut sender = sender.ready().await?;
    let request = http::Request::post(uri).header("content-type", "application/json");
    let request = request.header("content-length", STREAM_BYTES * 2).body(())?;
    let (answer, mut body) = sender.send_request(request, false)?;
    body.send_data(Bytes::from(vec![b' '; STREAM_BYTES]), false)?;
    Ok(answer.await?.status().as_u16().to_string())
}
