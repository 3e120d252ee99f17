//! Queries the readiness of a process on its private listener.

use std::time::Duration;

use ferrite_core::net::Address;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const POLL_INTERVAL: Duration = Duration::from_millis(15);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
const REQUEST: &[u8] = b"GET /readyz HTTP/1.1\r\nhost: ferrite\r\nconnection: close\r\n\r\n";
const READY_STATUS_LINE: &str = "HTTP/1.1 200 ";
const UNREADY_STATUS_LINE: &str = "HTTP/1.1 503 ";
/// Longest response that is read: a status line, headers and the reason.
const MAX_RESPONSE_BYTES: u64 = 4096;

pub(super) async fn until_ready(address: &Address) {
    loop {
        if matches!(tokio::time::timeout(REQUEST_TIMEOUT, ask(address)).await, Ok(Ok(Ok(())))) {
            return;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Queries the process once. If it is not ready, or does not serve `/readyz`, the inner error says
/// so on one line.
pub(crate) async fn ask(address: &Address) -> std::io::Result<Result<(), String>> {
    let mut stream = address.connect().await?;
    stream.write_all(REQUEST).await?;
    let mut response = Vec::new();
    stream.take(MAX_RESPONSE_BYTES).read_to_end(&mut response).await?;
    let response = String::from_utf8_lossy(&response);
    if response.starts_with(READY_STATUS_LINE) {
        return Ok(Ok(()));
    }
    let first = response.lines().next().unwrap_or_default();
    let said = match response.split_once("\r\n\r\n") {
        Some((_, body)) if first.starts_with(UNREADY_STATUS_LINE) && !body.trim().is_empty() => body.trim().to_owned(),
        _ => format!("{address} is not an --admin-listen address, it answers `{first}`"),
    };
    Ok(Err(said.replace(|c: char| c.is_control(), " ")))
}
