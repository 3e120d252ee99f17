use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::net::Stream;

/// What HTTP/2 clients send first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection that must say within a time which protocol it speaks. What finds that out waits without end otherwise, and a
/// client that sends nothing would hold its place for ever. Afterwards each protocol has limits of its own, but none for a client
/// that takes nothing of its answer: that one loses its connection as well.
pub(super) struct TimeoutStream {
    stream: Stream,
    deadline: Option<Pin<Box<Sleep>>>,
    matched: usize,
    /// How long the client may take nothing, and when that is over while it does.
    patience: Duration,
    stall: Option<Pin<Box<Sleep>>>,
}

impl TimeoutStream {
    /// The client begins within `limit`, and takes something within `patience`.
    pub(super) fn new(stream: Stream, limit: Duration, patience: Duration) -> Self {
        Self { stream, deadline: Some(Box::pin(tokio::time::sleep(limit))), matched: 0, patience, stall: None }
    }

    /// Ends a write that waits for too long.
    fn wrote<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.stall = None;
            return polled;
        }
        let patience = self.patience;
        let stall = self.stall.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        match stall.as_mut().poll(cx) {
            Poll::Ready(()) => {
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing of its answer")))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// Ends the wait when `bytes` show which protocol it is.
    fn saw(&mut self, bytes: &[u8]) {
        let expected = &PREFACE[self.matched..];
        let length = bytes.len().min(expected.len());
        self.matched += length;
        if bytes[..length] != expected[..length] || self.matched == PREFACE.len() {
            self.deadline = None;
        }
    }
}

impl AsyncRead for TimeoutStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        let Some(deadline) = &mut self.deadline else { return polled };
        if polled.is_pending() && deadline.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the client did not begin a request in time",
            )));
        }
        if polled.is_ready() {
            self.saw(&buf.filled()[before..]);
        }
        polled
    }
}

impl AsyncWrite for TimeoutStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.wrote(cx, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.wrote(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.wrote(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.wrote(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
