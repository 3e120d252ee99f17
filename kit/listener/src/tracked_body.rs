//! The body of a response as hyper gets it. It ends the count of its request, and measures the
//! pauses of a client that takes it through HTTP/2 flow control.
//!
//! Such a client never blocks the socket, so no write is pending: hyper just does not ask for the
//! next part of the body. It takes a whole part as soon as the client accepts one byte, so parts
//! are small.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use http_body::{Frame, SizeHint};
use tokio::time::Instant;

use super::activity::{RequestGuard, ResponseDue};
use super::min_rate::MinRate;
use super::quota::Share;

/// Maximum size of a part over HTTP/2: the largest frame unless the client allows more.
const MAX_PART_BYTES: usize = 16 * 1024;

/// The share of a request in a quota. As an extension of a response, it is dropped with the body.
#[derive(Clone, Debug)]
pub struct RequestPermit(pub Arc<Share>);

/// A body that counts as a request of its connection.
#[derive(Debug)]
pub(super) struct TrackedBody {
    inner: Body,
    /// Dropped before `request`, in whose connection it is listed.
    pause: Option<ClientPause>,
    _request: Option<RequestGuard>,
    _permit: Option<RequestPermit>,
}

/// Measures the pauses of the client between two parts of the body.
#[derive(Debug)]
struct ClientPause {
    min_rate: MinRate,
    due: ResponseDue,
    /// The rest of a frame of the body.
    rest: Bytes,
    /// Size of the last part. The client has taken it when the next one is polled.
    last_bytes: usize,
}

impl TrackedBody {
    /// Tracks `inner` as the response of `request`, and holds `permit` until its end. With a rate,
    /// measures pauses of the client.
    pub(super) fn new(
        inner: Body,
        request: Option<RequestGuard>,
        permit: Option<RequestPermit>,
        min_rate: Option<MinRate>,
    ) -> Self {
        let pause = match (&request, min_rate) {
            (Some(request), Some(min_rate)) if !inner.is_end_stream() => {
                Some(ClientPause { min_rate, due: request.add_response(), rest: Bytes::new(), last_bytes: 0 })
            }
            _ => None,
        };
        Self { inner, pause, _request: request, _permit: permit }
    }
}

impl ClientPause {
    /// Ends the pause: the client has taken the last part.
    fn end(&mut self) {
        self.min_rate.resume(Instant::now(), self.last_bytes);
        self.last_bytes = 0;
        self.due.set(None);
    }

    /// Returns the next part and begins the pause after it.
    fn begin(&mut self) -> Frame<Bytes> {
        let part = self.rest.split_to(self.rest.len().min(MAX_PART_BYTES));
        self.last_bytes = part.len();
        let due = self.min_rate.pause(Instant::now());
        self.due.set(Some(due));
        Frame::data(part)
    }
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        let Some(pause) = &mut this.pause else { return Pin::new(&mut this.inner).poll_frame(cx) };
        pause.end();
        if pause.rest.is_empty() {
            match ready!(Pin::new(&mut this.inner).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => pause.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                end => return Poll::Ready(end),
            }
        }
        Poll::Ready(Some(Ok(pause.begin())))
    }

    fn is_end_stream(&self) -> bool {
        self.pause.as_ref().is_none_or(|pause| pause.rest.is_empty()) && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let inner = self.inner.size_hint();
        let rest = self.pause.as_ref().map_or(0, |pause| pause.rest.len() as u64);
        match inner.exact() {
            Some(exact) => SizeHint::with_exact(exact + rest),
            None => inner,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::quota::{Client, Quota, QuotaLimits};

    #[test]
    fn requests_count_until_their_last_permit_is_dropped() {
        let requests = Quota::new(QuotaLimits { per_address: 2, ..QuotaLimits::NONE });
        let address = Some(IpAddr::from([192, 0, 2, 1]));
        let admit = |address| {
            let share = requests.take(Client { address, user: None });
            share.ok().map(|share| RequestPermit(Arc::new(share)))
        };
        let (first, second) = (admit(address).unwrap(), admit(address).unwrap());
        assert!(admit(address).is_none());
        assert!(admit(Some(IpAddr::from([192, 0, 2, 2]))).is_some() && admit(None).is_some());
        let clone = first.clone();
        drop(first);
        assert!(admit(address).is_none());
        drop(clone);
        assert!(admit(address).is_some());
        drop(second);
        assert!(requests.is_unused());
    }
}
