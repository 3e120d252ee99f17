//! A stream that closes the connection of a client that sends no request or takes no response.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ferrite_core::net::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep};

use super::activity::ConnectionActivity;
use super::connections::ConnectionSlot;
use super::limits::ListenerLimits;
use super::linger::{Linger, UnreadBody};
use super::min_rate::MinRate;

/// The preface of an HTTP/2 client (RFC 9113, section 3.4).
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The place of a connection in the limit of its listener. Dropped with the stream, also after an
/// upgrade.
#[derive(Debug)]
pub(super) enum Place {
    /// Of a listener between services.
    Queued { _permit: OwnedSemaphorePermit },
    /// Of a public listener.
    Counted(ConnectionSlot),
}

impl Place {
    pub(super) fn activity(&self) -> Option<&Arc<ConnectionActivity>> {
        match self {
            Self::Queued { .. } => None,
            Self::Counted(slot) => Some(slot.activity()),
        }
    }
}

/// A connection with two timeouts that hyper does not have. The client must send the first byte of
/// an HTTP/1.1 request or the whole HTTP/2 preface in time, because hyper waits for these bytes
/// without limit to detect the protocol. And it must take responses at a minimum rate.
pub(super) struct TimeoutStream {
    stream: Stream,
    place: Place,
    /// Deadline for the first bytes; `None` after them.
    handshake_deadline: Option<Pin<Box<Sleep>>>,
    /// Bytes received so far that match the HTTP/2 preface.
    matched: usize,
    write_rate: MinRate,
    /// Deadline of the pending write, if any.
    write_deadline: Option<Pin<Box<Sleep>>>,
    /// Marks a connection that must not be closed before the client has seen the response.
    unread_body: UnreadBody,
    linger: Option<Linger>,
}

impl TimeoutStream {
    pub(super) fn new(stream: Stream, limits: &ListenerLimits, place: Place, unread_body: UnreadBody) -> Self {
        let handshake_deadline = Some(Box::pin(tokio::time::sleep(limits.header_timeout)));
        let write_rate = limits.response_rate();
        let (write_deadline, linger) = (None, None);
        Self { stream, place, handshake_deadline, matched: 0, write_rate, write_deadline, unread_body, linger }
    }

    /// Returns the result of a write of `bytes`, or an error if the client is too slow.
    fn check_write<T>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
        bytes: impl FnOnce(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(written) = polled {
            self.write_rate.resume(Instant::now(), written.as_ref().map_or(0, bytes));
            if self.write_deadline.take().is_some()
                && let Some(activity) = self.place.activity()
            {
                activity.set_write_pending(false);
            }
            return Poll::Ready(written);
        }
        if self.write_deadline.is_none() {
            let due = self.write_rate.pause(Instant::now());
            self.write_deadline = Some(Box::pin(tokio::time::sleep_until(due)));
            if let Some(activity) = self.place.activity() {
                activity.set_write_pending(true);
            }
        }
        let is_too_slow = self.write_deadline.as_mut().is_some_and(|deadline| deadline.as_mut().poll(cx).is_ready());
        if is_too_slow {
            if let Place::Counted(slot) = &self.place {
                slot.table().count_closed("slow_reader");
            }
            return Poll::Ready(Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the client reads the response too slowly",
            )));
        }
        Poll::Pending
    }

    /// Ends the handshake once `bytes` decide the protocol: they complete the HTTP/2 preface or
    /// differ from it.
    fn on_handshake(&mut self, bytes: &[u8]) {
        let expected = &HTTP2_PREFACE[self.matched..];
        let length = bytes.len().min(expected.len());
        self.matched += length;
        if bytes[..length] != expected[..length] {
            self.handshake_deadline = None;
            // Not HTTP/2, however many bytes matched.
            self.matched = 0;
        } else if self.matched == HTTP2_PREFACE.len() {
            self.handshake_deadline = None;
        }
    }

    fn is_http1(&self) -> bool {
        self.handshake_deadline.is_none() && self.matched < HTTP2_PREFACE.len()
    }
}

impl AsyncRead for TimeoutStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if polled.is_ready() {
            let received = &buf.filled()[before..];
            if self.handshake_deadline.is_some() {
                self.on_handshake(received);
            }
            if self.is_http1()
                && !received.is_empty()
                && let Some(activity) = self.place.activity()
            {
                activity.on_received();
            }
        } else if let Some(deadline) = &mut self.handshake_deadline
            && deadline.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the client did not begin a request in time",
            )));
        }
        polled
    }
}

impl AsyncWrite for TimeoutStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.check_write(cx, polled, |written| *written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.check_write(cx, polled, |()| 0)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.unread_body.is_noted() {
            let this = &mut *self;
            return this.linger.get_or_insert_with(Linger::new).poll(&mut this.stream, cx);
        }
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.check_write(cx, polled, |()| 0)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.check_write(cx, polled, |written| *written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
