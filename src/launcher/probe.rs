//! Asks a child's private listener whether it is ready.

use std::time::Duration;

use ferrite_kit::net::Address;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const PAUSE: Duration = Duration::from_millis(15);
const PATIENCE: Duration = Duration::from_secs(2);
const QUESTION: &[u8] = b"GET /readyz HTTP/1.1\r\nhost: ferrite\r\nconnection: close\r\n\r\n";
const ANSWER: &[u8] = b"HTTP/1.1 200 ";

/// Returns when the process behind `address` says that it is ready.
pub(super) async fn until_ready(address: &Address) {
    loop {
        if matches!(tokio::time::timeout(PATIENCE, ask(address)).await, Ok(Ok(true))) {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn ask(address: &Address) -> std::io::Result<bool> {
    let mut stream = address.connect().await?;
    stream.write_all(QUESTION).await?;
    let mut head = [0; ANSWER.len()];
    stream.read_exact(&mut head).await?;
    Ok(head == ANSWER)
}
