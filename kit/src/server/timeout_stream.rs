//! A stream that ends connections of clients that send no request or accept no response.
//!
//! Not here: the timeout of request headers, which hyper has.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::net::Stream;

/// The connection preface of an HTTP/2 client (RFC 9113, section 3.4).
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection with two timeouts that hyper does not have. The client must send the first byte of an
/// HTTP/1.1 request, or the whole preface of HTTP/2, in time: hyper waits for these bytes without limit to detect the protocol. And a
/// write must not be pending for too long because the client accepts no bytes.
pub(super) struct TimeoutStream {
    stream: Stream,
    /// Deadline of the first bytes; `None` after them.
    handshake_deadline: Option<Pin<Box<Sleep>>>,
    /// Number of bytes received so far that match the preface of HTTP/2.
    matched: usize,
    write_timeout: Duration,
    /// Deadline of the pending write; `None` while no write is pending.
    write_deadline: Option<Pin<Box<Sleep>>>,
}

impl TimeoutStream {
    pub(super) fn new(stream: Stream, handshake_timeout: Duration, write_timeout: Duration) -> Self {
        let handshake_deadline = Some(Box::pin(tokio::time::sleep(handshake_timeout)));
        Self { stream, handshake_deadline, matched: 0, write_timeout, write_deadline: None }
    }

    /// Returns the result of a write, or an error if the write has been pending for too long.
    fn check_write<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.write_deadline = None;
            return polled;
        }
        let timeout = self.write_timeout;
        let deadline = self.write_deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        match deadline.as_mut().poll(cx) {
            Poll::Ready(()) => {
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client accepts no bytes of the response")))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// Ends the handshake when `bytes` decide the protocol: they complete the preface of HTTP/2 or differ from it.
    fn on_received(&mut self, bytes: &[u8]) {
        let expected = &HTTP2_PREFACE[self.matched..];
        let length = bytes.len().min(expected.len());
        self.matched += length;
        if bytes[..length] != expected[..length] || self.matched == HTTP2_PREFACE.len() {
            self.handshake_deadline = None;
        }
    }
}

impl AsyncRead for TimeoutStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        let Some(deadline) = &mut self.handshake_deadline else { return polled };
        if polled.is_pending() && deadline.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the client did not begin a request in time",
            )));
        }
        if polled.is_ready() {
            self.on_received(&buf.filled()[before..]);
        }
        polled
    }
}

impl AsyncWrite for TimeoutStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.check_write(cx, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.check_write(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.check_write(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.check_write(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
