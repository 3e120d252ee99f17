//! Bodies without credentials, slow uploads, wrong passwords, and texts that are expensive to
//! render.

use std::time::Duration;

use ferrite_benches::Failure;
use ferrite_benches::installation::USER;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::{Attacker, Outcome};
use crate::material::ATTACKER;

const BODIES: usize = 300;
/// Declared length of a body, and the bytes of it that are sent.
const BODY_BYTES: usize = 4 << 20;
const SENT_BYTES: usize = 3 << 20;
const UPLOADS: usize = 16;
const UPLOAD_BYTES: usize = 90 << 20;
const UPLOADED_BYTES: usize = 5 << 20;
/// Time for which a body stays incomplete.
const WAIT: Duration = Duration::from_secs(20);
const DRIP_PAUSE: Duration = Duration::from_millis(500);
const PASSWORDS_AT_ONCE: usize = 8;
const TEXTS_AT_ONCE: usize = 16;
const TEXT_BYTES: usize = 1 << 20;
/// Time after which half of the clients disconnect.
const TEXT_PATIENCE: Duration = Duration::from_millis(500);

/// Starts concurrent bodies without credentials and leaves them incomplete.
pub(super) async fn anonymous(attacker: &Attacker) -> Result<Vec<Outcome>, Failure> {
    let head = attacker.head("POST", "/user/repos", Some(BODY_BYTES), false);
    unfinished(attacker, BODIES, head, SENT_BYTES).await
}

/// Starts concurrent uploads of large files and sends a byte now and then.
pub(super) async fn slow_uploads(attacker: &Attacker) -> Result<Vec<Outcome>, Failure> {
    let head = attacker.head("PUT", &format!("/repos/{ATTACKER}/sparse/contents/big.bin"), Some(UPLOAD_BYTES), true);
    unfinished(attacker, UPLOADS, head, UPLOADED_BYTES).await
}

async fn unfinished(attacker: &Attacker, count: usize, head: String, sent: usize) -> Result<Vec<Outcome>, Failure> {
    let mut all = JoinSet::new();
    let mut refused = Vec::new();
    for _ in 0..count {
        match attacker.connect().await {
            Ok(stream) => {
                let head = head.clone();
                all.spawn(async move { Outcome::new(leave_unfinished(stream, &head, sent).await, 0) });
            }
            Err(_) => refused.push(Outcome::new("no connection", 0)),
        }
    }
    let mut outcomes = all.join_all().await;
    outcomes.append(&mut refused);
    Ok(outcomes)
}

/// Sends `head` and `sent` bytes of a JSON text, then a byte now and then. Returns how the server
/// ends this.
async fn leave_unfinished(stream: TcpStream, head: &str, sent: usize) -> String {
    let (mut reading, mut writing) = stream.into_split();
    let answer = async {
        let mut start = [0; 12];
        match reading.read_exact(&mut start).await {
            Ok(_) => String::from_utf8_lossy(&start[9..]).into_owned(),
            Err(_) => "cut".to_owned(),
        }
    };
    let sending = async {
        writing.write_all(head.as_bytes()).await?;
        writing.write_all(b"{\"message\":\"m\",\"content\":\"").await?;
        let chunk = vec![b'A'; 64 << 10];
        for _ in 0..sent / chunk.len() {
            writing.write_all(&chunk).await?;
        }
        loop {
            tokio::time::sleep(DRIP_PAUSE).await;
            writing.write_all(b"A").await?;
        }
        #[expect(unreachable_code, reason = "names the type of the errors above")]
        Ok::<(), std::io::Error>(())
    };
    let both = async {
        tokio::pin!(answer);
        tokio::select! {
            answer = &mut answer => answer,
            // A server that responds early may close before it has read everything; its response
            // still arrives.
            _ = sending => answer.await,
        }
    };
    tokio::time::timeout(WAIT, both).await.unwrap_or_else(|_| "still served".to_owned())
}

/// Guesses another user's password.
pub(super) async fn passwords(attacker: &Attacker) -> Result<Vec<Outcome>, Failure> {
    let mut guesses = JoinSet::new();
    for number in 0..PASSWORDS_AT_ONCE {
        let request = attacker.client.post(format!("{}/api/v1/users/{USER}/tokens", attacker.url));
        let request = request.basic_auth(USER, Some(format!("guess {number}"))).json(&json!({ "name": "x" }));
        guesses.spawn(async move {
            match request.send().await {
                Ok(answer) => Outcome::new(answer.status().as_u16().to_string(), 0),
                Err(_) => Outcome::new("no answer", 0),
            }
        });
    }
    Ok(guesses.join_all().await)
}

/// Renders the longest allowed texts, without credentials.
pub(super) async fn markdown(attacker: &Attacker) -> Result<Vec<Outcome>, Failure> {
    let mut texts = JoinSet::new();
    for number in 0..TEXTS_AT_ONCE {
        let mut request =
            attacker.client.post(format!("{}/api/v1/markdown/raw", attacker.url)).body("&".repeat(TEXT_BYTES));
        if number % 2 == 0 {
            request = request.timeout(TEXT_PATIENCE);
        }
        texts.spawn(async move {
            match request.send().await {
                Ok(answer) => {
                    let status = answer.status().as_u16().to_string();
                    let bytes = answer.bytes().await.map_or(0, |body| body.len() as u64);
                    Outcome::new(status, bytes)
                }
                Err(_) => Outcome::new("left", 0),
            }
        });
    }
    Ok(texts.join_all().await)
}
