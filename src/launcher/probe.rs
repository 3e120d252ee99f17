//! Polls the readiness endpoint on a child's private listener.

use std::time::Duration;

use ferrite_kit::net::Address;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const POLL_INTERVAL: Duration = Duration::from_millis(15);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
const REQUEST: &[u8] = b"GET /readyz HTTP/1.1\r\nhost: ferrite\r\nconnection: close\r\n\r\n";
const READY_STATUS_LINE: &[u8] = b"HTTP/1.1 200 ";

/// Returns once the process behind `address` is ready.
pub(super) async fn until_ready(address: &Address) {
    loop {
        if matches!(tokio::time::timeout(REQUEST_TIMEOUT, is_ready(address)).await, Ok(Ok(true))) {
            return;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

async fn is_ready(address: &Address) -> std::io::Result<bool> {
    let mut stream = address.connect().await?;
    stream.write_all(REQUEST).await?;
    let mut head = [0; READY_STATUS_LINE.len()];
    stream.read_exact(&mut head).await?;
    Ok(head == READY_STATUS_LINE)
}
