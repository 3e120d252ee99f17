use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use ferrite_kit::net::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// A connection that can be cut from outside, whatever is being done with it.
pub(super) struct Wire {
    stream: Stream,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Wire {
    /// Fails from the moment on at which `cut` is cancelled.
    pub(super) fn new(stream: Stream, cut: &CancellationToken) -> Self {
        Self { stream, cut: Box::pin(cut.clone().cancelled_owned()) }
    }

    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.cut.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::ErrorKind::ConnectionAborted.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Wire {
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
    async fn a_cut_ends_a_read_that_waits() {
        let (near, _far) = UnixStream::pair().unwrap();
        let cut = CancellationToken::new();
        let mut wire = Wire::new(Stream::Unix(near), &cut);
        let mut byte = [0];
        let read = wire.read(&mut byte);
        let later = async {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            cut.cancel();
        };
        let (read, ()) = tokio::join!(read, later);
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
    }
}
