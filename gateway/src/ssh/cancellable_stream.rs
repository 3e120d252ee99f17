use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use ferrite_core::net::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// A connection whose reads and writes fail once a token is cancelled.
pub(super) struct CancellableStream {
    stream: Stream,
    cancelled: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl CancellableStream {
    pub(super) fn new(stream: Stream, token: &CancellationToken) -> Self {
        Self { stream, cancelled: Box::pin(token.clone().cancelled_owned()) }
    }

    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.cancelled.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::ErrorKind::ConnectionAborted.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl AsyncRead for CancellableStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for CancellableStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::UnixStream;

    use super::*;

    #[tokio::test]
    async fn a_cancellation_ends_a_pending_read() {
        let (near, _far) = UnixStream::pair().unwrap();
        let token = CancellationToken::new();
        let mut stream = CancellableStream::new(Stream::Unix(near), &token);
        let mut byte = [0];
        let read = stream.read(&mut byte);
        let later = async {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            token.cancel();
        };
        let (read, ()) = tokio::join!(read, later);
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
    }
}
