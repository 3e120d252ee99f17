//! Counts the bytes that a transfer actually receives, whatever the remote claims.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    sync::atomic::{AtomicU64, Ordering},
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes received so far, and their limit.
#[derive(Debug)]
pub(super) struct Budget {
    received: AtomicU64,
    max: u64,
}

impl Budget {
    pub(super) fn new(max: u64) -> Self {
        Self { received: AtomicU64::new(0), max }
    }

    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    pub(super) fn max(&self) -> u64 {
        self.max
    }

    pub(super) fn is_spent(&self) -> bool {
        self.received() > self.max
    }

    fn add(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// A stream that counts received bytes and fails once the budget is spent.
#[derive(Debug)]
pub(super) struct Metered<S> {
    stream: S,
    budget: Arc<Budget>,
}

impl<S> Metered<S> {
    pub(super) fn new(stream: S, budget: Arc<Budget>) -> Self {
        Self { stream, budget }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.budget.is_spent() {
            return Poll::Ready(Err(io::ErrorKind::FileTooLarge.into()));
        }
        let before = out.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, out))?;
        self.budget.add(out.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn a_stream_ends_when_its_budget_is_spent() {
        let budget = Arc::new(Budget::new(100));
        let mut stream = Metered::new(&[7_u8; 300][..], Arc::clone(&budget));
        let mut piece = [0; 60];
        for expected in [60, 120] {
            stream.read_exact(&mut piece).await.unwrap();
            assert_eq!(budget.received(), expected);
        }
        assert!(budget.is_spent());
        assert_eq!(stream.read(&mut piece).await.unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
}
