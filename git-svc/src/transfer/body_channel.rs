//! The way from whoever makes an answer to its client: bounded, and never cut short without an error.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use futures_util::{Stream, stream};
use tokio::sync::mpsc;

use crate::types::error::GitError;

/// Bytes of an answer that are made at once; two such pieces may wait for the client.
pub(crate) const CHUNK_BYTES: usize = 128 << 10;
const CHUNKS_IN_FLIGHT: usize = 2;

/// A way for one answer.
pub(crate) fn channel() -> (BodySender, BodyReceiver) {
    let (chunks, receiver) = mpsc::channel(CHUNKS_IN_FLIGHT);
    let is_whole = Arc::new(AtomicBool::new(false));
    (BodySender { chunks, is_whole: Arc::clone(&is_whole) }, BodyReceiver { receiver, is_whole })
}

/// Where the pieces of an answer go. Dropped before [`BodySender::end`], it ends them in an error.
pub(crate) struct BodySender {
    chunks: mpsc::Sender<Result<Bytes, GitError>>,
    is_whole: Arc<AtomicBool>,
}

/// The client is not there any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Disconnected;

impl BodySender {
    /// Waits for room, and sends a piece, or why there are no more.
    pub(crate) async fn send(&self, chunk: Result<Bytes, GitError>) -> Result<(), Disconnected> {
        self.chunks.send(chunk).await.map_err(|_| Disconnected)
    }

    /// Returns when the client has left.
    pub(crate) async fn closed(&self) {
        self.chunks.closed().await;
    }

    /// Says that what was sent is all of it.
    pub(crate) fn end(&self) {
        self.is_whole.store(true, Ordering::Release);
    }
}

/// Where they come from. What was cut off because nobody took it must not look like the whole: it ends in an error.
pub(crate) struct BodyReceiver {
    receiver: mpsc::Receiver<Result<Bytes, GitError>>,
    is_whole: Arc<AtomicBool>,
}

impl BodyReceiver {
    /// The next one; `None` after the last.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, GitError>> {
        match self.receiver.recv().await {
            Some(chunk) => Some(chunk),
            None if self.is_whole.load(Ordering::Acquire) => None,
            None => Some(Err(GitError::TimedOut { what: "the transfer" })),
        }
    }

    /// All of them, up to the first error.
    pub(crate) fn into_stream(self) -> impl Stream<Item = io::Result<Bytes>> {
        stream::unfold(Some(self), |chunks| async {
            let mut chunks = chunks?;
            match chunks.next().await? {
                Ok(chunk) => Some((Ok(chunk), Some(chunks))),
                Err(error) => Some((Err(io::Error::other(error)), None)),
            }
        })
    }
}
