//! Limits the memory of responses that wait for their clients, per address and in total.
//!
//! Counts responses that are complete when their handler returns, such as JSON: they stay in memory
//! until a slow client has taken them. Streams are not counted, because their buffers are bounded.

use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use bytes::Buf;
use futures_util::{FutureExt, stream};
use http::Version;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;

use super::quota::{Client, Quota, QuotaLimits, Share};

/// Smaller responses are not counted.
const MAX_UNCOUNTED_BYTES: usize = 8 * 1024;
/// Bytes handed to the connection at once: one HTTP/2 frame or one HTTP/1 write.
const HTTP2_CHUNK_BYTES: usize = 16 * 1024;
const HTTP1_CHUNK_BYTES: usize = 64 * 1024;

/// Counts responses that wait for their clients. Clones share the counts.
#[derive(Clone, Debug)]
pub struct ResponseMemory {
    max_bytes_per_address: usize,
    max_bytes: usize,
    held: Quota,
}

/// A response would exceed a limit on waiting responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many unread responses: {held_bytes} bytes")]
pub struct ResponseMemoryFull {
    /// Bytes already waiting, for the address or in total.
    pub held_bytes: usize,
}

impl ResponseMemory {
    /// Returns an empty count with these limits.
    #[must_use]
    pub fn new(max_bytes_per_address: usize, max_bytes: usize) -> Self {
        Self { max_bytes_per_address, max_bytes, held: Quota::new(QuotaLimits::NONE) }
    }

    /// Counts the body of `response` for the client's address until the client has taken it.
    /// Clients without an address have only the total limit.
    ///
    /// The first waiting response of an address is never refused by the limit per address, and may
    /// use the last quarter of the total.
    ///
    /// # Errors
    /// If a limit is exceeded. The response is dropped.
    pub fn hold(
        &self,
        address: Option<IpAddr>,
        version: Version,
        response: Response,
    ) -> Result<Response, ResponseMemoryFull> {
        let exact = response.body().size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
        let Some(bytes) = exact.filter(|bytes| *bytes > MAX_UNCOUNTED_BYTES) else { return Ok(response) };
        let (parts, mut body) = response.into_parts();
        // A complete body is its first frame. A body of known length that comes from a service is a
        // stream.
        let data = match body.frame().now_or_never() {
            None => return Ok(Response::from_parts(parts, body)),
            Some(None) => return Ok(Response::from_parts(parts, Body::empty())),
            Some(Some(first)) => match first.map(Frame::into_data) {
                Ok(Ok(data)) if data.len() == bytes => data,
                Ok(Ok(data)) => return Ok(Response::from_parts(parts, resumed(data, body))),
                // Trailers. A body of known length does not begin with them.
                Ok(Err(_)) => return Ok(Response::from_parts(parts, Body::empty())),
                Err(error) => {
                    let failed = stream::once(std::future::ready(Err::<Bytes, _>(error)));
                    return Ok(Response::from_parts(parts, Body::from_stream(failed)));
                }
            },
        };
        let hold = self.reserve(Client { address, user: None }, bytes)?;
        let chunk_bytes = if version == Version::HTTP_2 { HTTP2_CHUNK_BYTES } else { HTTP1_CHUNK_BYTES };
        Ok(Response::from_parts(parts, Body::new(HeldBody { data, chunk_bytes, _hold: hold })))
    }

    fn reserve(&self, client: Client, bytes: usize) -> Result<Hold, ResponseMemoryFull> {
        let share = self.held.take_if(client, bytes, |held| {
            let of_address = held.of_client(client);
            if of_address > 0 && of_address.saturating_add(bytes) > self.max_bytes_per_address {
                return Err(ResponseMemoryFull { held_bytes: of_address });
            }
            let available = if of_address == 0 { self.max_bytes } else { self.max_bytes / 4 * 3 };
            if held.total > 0 && held.total.saturating_add(bytes) > available {
                return Err(ResponseMemoryFull { held_bytes: held.total });
            }
            Ok(())
        })?;
        metrics::gauge!("ferrite_waiting_response_bytes").increment(as_float(bytes));
        Ok(Hold { _share: share, bytes })
    }
}

/// Returns a body of `first` and the rest of its stream, with the same length.
fn resumed(first: Bytes, rest: Body) -> Body {
    Body::new(ResumedBody { first: Some(first), rest })
}

struct ResumedBody {
    first: Option<Bytes>,
    rest: Body,
}

impl HttpBody for ResumedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match self.first.take() {
            Some(first) => Poll::Ready(Some(Ok(Frame::data(first)))),
            None => Pin::new(&mut self.rest).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (first, rest) = (self.first.as_ref().map_or(0, |first| first.len() as u64), self.rest.size_hint());
        match rest.exact() {
            Some(rest) => SizeHint::with_exact(first + rest),
            None => SizeHint::default(),
        }
    }
}

/// Counted bytes, until dropped.
#[derive(Debug)]
struct Hold {
    _share: Share,
    bytes: usize,
}

impl Drop for Hold {
    fn drop(&mut self) {
        metrics::gauge!("ferrite_waiting_response_bytes").decrement(as_float(self.bytes));
    }
}

fn as_float(bytes: usize) -> f64 {
    bytes as f64
}

/// A complete body that is passed on in parts. Each is a copy, so that the whole is freed with the
/// last part.
struct HeldBody {
    data: Bytes,
    chunk_bytes: usize,
    _hold: Hold,
}

impl HttpBody for HeldBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::convert::Infallible>>> {
        let length = self.data.len().min(self.chunk_bytes);
        if length == 0 {
            return Poll::Ready(None);
        }
        let chunk = Bytes::copy_from_slice(&self.data[..length]);
        self.data.advance(length);
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.data.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1024;

    fn ip(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([192, 0, 2, last]))
    }

    fn hold(memory: &ResponseMemory, address: Option<IpAddr>, kib: usize) -> Result<Response, ResponseMemoryFull> {
        memory.hold(address, Version::HTTP_11, Response::new(Body::from(vec![b'x'; kib * KIB])))
    }

    #[tokio::test]
    async fn responses_count_until_they_are_taken() {
        let memory = ResponseMemory::new(100 * KIB, 1000 * KIB);
        let first = hold(&memory, ip(1), 60).unwrap();
        assert_eq!(hold(&memory, ip(1), 60).unwrap_err(), ResponseMemoryFull { held_bytes: 60 * KIB });
        assert!(hold(&memory, ip(2), 60).is_ok() && hold(&memory, ip(1), 8).is_ok());
        assert_eq!(first.body().size_hint().exact(), Some(60 * KIB as u64));
        let taken = axum::body::to_bytes(first.into_body(), usize::MAX).await.unwrap();
        assert_eq!(taken, vec![b'x'; 60 * KIB]);
        let second = hold(&memory, ip(1), 60).unwrap();
        drop(second);
        assert!(memory.held.is_unused());
    }

    #[tokio::test]
    async fn the_total_leaves_a_quarter_to_addresses_for_which_nothing_waits() {
        let memory = ResponseMemory::new(1000 * KIB, 400 * KIB);
        let held: Vec<_> = std::iter::from_fn(|| hold(&memory, ip(1), 100).ok()).collect();
        assert_eq!(held.len(), 3);
        let other = hold(&memory, ip(2), 100).unwrap();
        assert_eq!(hold(&memory, ip(3), 100).unwrap_err(), ResponseMemoryFull { held_bytes: 400 * KIB });
        drop(other);
        assert!(hold(&memory, ip(3), 100).is_ok());
    }

    #[tokio::test]
    async fn a_single_response_may_be_larger_than_the_bounds() {
        let memory = ResponseMemory::new(10 * KIB, 20 * KIB);
        let single = hold(&memory, ip(1), 100).unwrap();
        assert!(hold(&memory, ip(1), 100).is_err());
        drop(single);
        assert!(hold(&memory, ip(1), 100).is_ok());
    }

    #[tokio::test]
    async fn a_stream_of_a_known_length_is_not_counted_and_stays_whole() {
        struct Known(Body, u64);
        impl HttpBody for Known {
            type Data = Bytes;
            type Error = axum::Error;

            fn poll_frame(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
            ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
                let polled = Pin::new(&mut self.0).poll_frame(cx);
                if let Poll::Ready(Some(Ok(frame))) = &polled {
                    self.1 -= frame.data_ref().unwrap().len() as u64;
                }
                polled
            }

            fn size_hint(&self) -> SizeHint {
                SizeHint::with_exact(self.1)
            }
        }
        let memory = ResponseMemory::new(10 * KIB, 20 * KIB);
        let parts = [vec![b'a'; 30 * KIB], vec![b'b'; 40 * KIB]].map(|part| Ok::<_, std::io::Error>(Bytes::from(part)));
        let stream = Body::from_stream(futures_util::stream::iter(parts));
        let response = Response::new(Body::new(Known(stream, 70 * KIB as u64)));
        let response = memory.hold(ip(1), Version::HTTP_2, response).unwrap();
        assert_eq!((memory.held.is_unused(), response.body().size_hint().exact()), (true, Some(70 * KIB as u64)));
        let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        assert_eq!((bytes.len(), bytes[0], bytes[70 * KIB - 1]), (70 * KIB, b'a', b'b'));
    }

    #[tokio::test]
    async fn parts_are_no_larger_than_a_frame() {
        let memory = ResponseMemory::new(100 * KIB, 100 * KIB);
        let response = Response::new(Body::from(vec![b'x'; 40 * KIB]));
        let mut body = memory.hold(None, Version::HTTP_2, response).unwrap().into_body();
        let mut lengths = Vec::new();
        while let Some(frame) = body.frame().await {
            lengths.push(frame.unwrap().into_data().unwrap().len() / KIB);
            assert_eq!(body.is_end_stream(), lengths.len() == 3);
        }
        assert_eq!(lengths, [16, 16, 8]);
    }
}
