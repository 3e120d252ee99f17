//! Bounded channel from the producer of a response body to the client. An incomplete body ends in
//! an error, so that a truncated response never looks complete.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use futures_util::{Stream, stream};
use git_store::types::error::GitError;
use tokio::sync::mpsc;

pub(crate) const CHUNK_BYTES: usize = 128 << 10;

/// Creates the channel of one response body. At most `max_waiting` chunks wait for the client.
pub(crate) fn channel(max_waiting: usize) -> (BodySender, BodyReceiver) {
    let (chunks, receiver) = mpsc::channel(max_waiting);
    let is_whole = Arc::new(AtomicBool::new(false));
    (BodySender { chunks, is_whole: Arc::clone(&is_whole) }, BodyReceiver { receiver, is_whole })
}

/// Sending half. If it is dropped before [`BodySender::end`], the body ends in an error.
pub(crate) struct BodySender {
    chunks: mpsc::Sender<Result<Bytes, GitError>>,
    is_whole: Arc<AtomicBool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Disconnected;

impl BodySender {
    /// Waits for room, then sends a chunk or the error that ends the body.
    pub(crate) async fn send(&self, chunk: Result<Bytes, GitError>) -> Result<(), Disconnected> {
        self.chunks.send(chunk).await.map_err(|_| Disconnected)
    }

    pub(crate) async fn ready(&self) -> Result<(), Disconnected> {
        self.chunks.reserve().await.map(drop).map_err(|_| Disconnected)
    }

    pub(crate) async fn closed(&self) {
        self.chunks.closed().await;
    }

    /// Marks the body as complete. Call it after the last chunk.
    pub(crate) fn end(&self) {
        self.is_whole.store(true, Ordering::Release);
    }
}

/// Receiving half. If the sender is dropped without [`BodySender::end`], the last item is an error.
pub(crate) struct BodyReceiver {
    receiver: mpsc::Receiver<Result<Bytes, GitError>>,
    is_whole: Arc<AtomicBool>,
}

impl BodyReceiver {
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, GitError>> {
        match self.receiver.recv().await {
            Some(chunk) => Some(chunk),
            None if self.is_whole.load(Ordering::Acquire) => None,
            None => Some(Err(GitError::TimedOut { what: "the transfer" })),
        }
    }

    /// Returns the chunks as a stream that ends after the first error.
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
