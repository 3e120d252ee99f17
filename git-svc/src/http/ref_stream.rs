//! Response bodies for long lists of refs, built chunk by chunk as the client reads them.

use std::{io, time::Duration};

use axum::body::Body;
use bytes::Bytes;
use futures_util::StreamExt as _;
use git2::Oid;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::state::AppState;

pub(super) const CHUNK_BYTES: usize = 64 << 10;
const CHUNKS_IN_FLIGHT: usize = 2;
/// Time limit for the client to take one chunk.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns a body of the chunks. A single chunk is sent as a whole; more are built as the client
/// reads them.
pub(super) fn body_of_chunks<I>(state: &AppState, mut chunks: I) -> Body
where
    I: Iterator<Item = Vec<u8>> + Send + 'static,
{
    let first = chunks.next().unwrap_or_default();
    let Some(second) = chunks.next() else { return Body::from(first) };
    let (sender, receiver) = mpsc::channel(CHUNKS_IN_FLIGHT);
    state.life.spawn_for_request("refs", async move {
        for chunk in [first, second].into_iter().chain(chunks) {
            let sent = tokio::time::timeout(IDLE_TIMEOUT, sender.send(chunk)).await;
            if !matches!(sent, Ok(Ok(()))) {
                // The client disconnected or does not read. The missing final flush packet tells it
                // that the response is incomplete.
                return;
            }
        }
    });
    Body::from_stream(ReceiverStream::new(receiver).map(|chunk| Ok::<_, io::Error>(Bytes::from(chunk))))
}

/// Appends an id in hexadecimal digits.
pub(super) fn push_id(chunk: &mut Vec<u8>, id: Oid) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in id.as_bytes() {
        chunk.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

/// Writes the length of the packet that starts at `start` and ends here into its first four bytes.
pub(super) fn set_length(chunk: &mut [u8], start: usize) {
    let length = format!("{:04x}", chunk.len() - start);
    chunk[start..start + 4].copy_from_slice(length.as_bytes());
}
