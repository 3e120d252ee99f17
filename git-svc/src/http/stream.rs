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

use crate::error::GitError;

/// Bytes of an answer that are made at once; two such pieces may wait for the client.
pub(super) const PIECE: usize = 128 << 10;
const PIECES: usize = 2;

/// A way for one answer.
pub(super) fn channel() -> (Sender, Pieces) {
    let (pieces, receiver) = mpsc::channel(PIECES);
    let is_whole = Arc::new(AtomicBool::new(false));
    (Sender { pieces, is_whole: Arc::clone(&is_whole) }, Pieces { receiver, is_whole })
}

/// Where the pieces of an answer go. Dropped before [`Sender::end`], it ends them in an error.
pub(super) struct Sender {
    pieces: mpsc::Sender<Result<Bytes, GitError>>,
    is_whole: Arc<AtomicBool>,
}

/// The client is not there any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Left;

impl Sender {
    /// Waits for room, and sends a piece, or why there are no more.
    pub(super) async fn send(&self, piece: Result<Bytes, GitError>) -> Result<(), Left> {
        self.pieces.send(piece).await.map_err(|_| Left)
    }

    /// Returns when the client has left.
    pub(super) async fn closed(&self) {
        self.pieces.closed().await;
    }

    /// Says that what was sent is all of it.
    pub(super) fn end(&self) {
        self.is_whole.store(true, Ordering::Release);
    }
}

/// Where they come from. What was cut off because nobody took it must not look like the whole: it ends in an error.
pub(super) struct Pieces {
    receiver: mpsc::Receiver<Result<Bytes, GitError>>,
    is_whole: Arc<AtomicBool>,
}

impl Pieces {
    /// The next one; `None` after the last.
    pub(super) async fn next(&mut self) -> Option<Result<Bytes, GitError>> {
        match self.receiver.recv().await {
            Some(piece) => Some(piece),
            None if self.is_whole.load(Ordering::Acquire) => None,
            None => Some(Err(GitError::TimedOut { what: "the transfer" })),
        }
    }

    /// All of them, up to the first error.
    pub(super) fn into_stream(self) -> impl Stream<Item = io::Result<Bytes>> {
        stream::unfold(Some(self), |pieces| async {
            let mut pieces = pieces?;
            match pieces.next().await? {
                Ok(piece) => Some((Ok(piece), Some(pieces))),
                Err(error) => Some((Err(io::Error::other(error)), None)),
            }
        })
    }
}
