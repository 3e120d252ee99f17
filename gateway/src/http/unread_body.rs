//! Handles responses that are sent before the request body was read: drains a short rest; otherwise
//! closes the connection in a way that lets the client still read the response.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::header::{CONNECTION, EXPECT};
use axum::http::{HeaderValue, Version};
use axum::response::Response;
use ferrite_listener::UnreadBody;
use http_body::{Body as HttpBody, Frame, SizeHint};
use parking_lot::Mutex;

/// Maximum body that is drained after its response, to keep the connection usable.
const MAX_DRAINED_BYTES: u64 = 64 * 1024;
const MAX_DRAIN: Duration = Duration::from_secs(1);

/// A request body, and whether it was read to the end.
struct Watched {
    body: Mutex<Body>,
    is_read: AtomicBool,
}

impl Watched {
    fn poll_frame(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut body = self.body.lock();
        let polled = Pin::new(&mut *body).poll_frame(cx);
        let is_end = match &polled {
            Poll::Ready(None) => true,
            Poll::Ready(Some(_)) => body.is_end_stream(),
            Poll::Pending => false,
        };
        if is_end {
            self.is_read.store(true, Ordering::Relaxed);
        }
        polled
    }
}

struct WatchedBody(Arc<Watched>);

impl HttpBody for WatchedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.0.poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.0.body.lock().is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.body.lock().size_hint()
    }
}

/// Watches how far the body of an HTTP/1 request is read by the time its response is ready.
pub(super) struct BodyWatch {
    watched: Arc<Watched>,
    /// False for a long body, and for one that the client sends only on `100 Continue`.
    is_drained: bool,
    connection: Option<UnreadBody>,
}

impl BodyWatch {
    /// Returns `None` for a request without a body, and over HTTP/2, where streams end on their
    /// own.
    pub(super) fn of(request: &mut Request) -> Option<Self> {
        if request.version() > Version::HTTP_11 || request.body().is_end_stream() {
            return None;
        }
        let is_short = request.body().size_hint().exact().is_some_and(|bytes| bytes <= MAX_DRAINED_BYTES);
        let is_drained = is_short && !request.headers().contains_key(EXPECT);
        let body = Mutex::new(std::mem::take(request.body_mut()));
        let watched = Arc::new(Watched { body, is_read: AtomicBool::new(false) });
        *request.body_mut() = Body::new(WatchedBody(Arc::clone(&watched)));
        Some(Self { watched, is_drained, connection: request.extensions_mut().remove::<UnreadBody>() })
    }

    pub(super) async fn finish(self, response: &mut Response) {
        if self.watched.is_read.load(Ordering::Relaxed) || self.drain().await {
            return;
        }
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        if let Some(connection) = &self.connection {
            connection.note();
        }
    }

    /// Drains the rest of a short body that is no longer read. Returns whether it has arrived.
    async fn drain(&self) -> bool {
        if !self.is_drained || Arc::strong_count(&self.watched) > 1 {
            return false;
        }
        let rest = async {
            while !self.watched.is_read.load(Ordering::Relaxed) {
                match std::future::poll_fn(|cx| self.watched.poll_frame(cx)).await {
                    Some(Ok(_)) | None => {}
                    Some(Err(_)) => return false,
                }
            }
            true
        };
        tokio::time::timeout(MAX_DRAIN, rest).await.unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body_util::BodyExt;

    use super::*;

    async fn is_closed(mut request: Request, frames_read: usize) -> bool {
        let watch = BodyWatch::of(&mut request);
        for _ in 0..frames_read {
            request.body_mut().frame().await.unwrap().unwrap();
        }
        drop(request);
        let mut response = Response::new(Body::empty());
        if let Some(watch) = watch {
            watch.finish(&mut response).await;
        }
        response.headers().contains_key(CONNECTION)
    }

    fn in_pieces() -> Request {
        let pieces = futures_util::stream::iter([Ok::<_, Infallible>("a"), Ok("b")]);
        Request::new(Body::from_stream(pieces))
    }

    #[tokio::test]
    async fn a_response_before_the_end_of_a_long_body_closes_the_connection() {
        let long = || Request::new(Body::from(vec![b'x'; 100_000]));
        assert!(is_closed(long(), 0).await && !is_closed(long(), 1).await);
        // A body without a length can be long.
        assert!(is_closed(in_pieces(), 0).await && is_closed(in_pieces(), 1).await);
        assert!(!is_closed(Request::new(Body::empty()), 0).await);
        let mut http2 = long();
        *http2.version_mut() = Version::HTTP_2;
        assert!(!is_closed(http2, 0).await);
    }

    #[tokio::test]
    async fn a_short_body_is_received_unless_the_client_waits_to_be_asked_for_it() {
        let short = || Request::new(Body::from("abc"));
        assert!(!is_closed(short(), 0).await && !is_closed(short(), 1).await);
        let mut waiting = short();
        waiting.headers_mut().insert(EXPECT, HeaderValue::from_static("100-continue"));
        assert!(is_closed(waiting, 0).await);
        let mut kept = short();
        let watch = BodyWatch::of(&mut kept).unwrap();
        let mut response = Response::new(Body::empty());
        watch.finish(&mut response).await;
        assert!(response.headers().contains_key(CONNECTION), "another task still reads it");
        assert_eq!(kept.into_body().collect().await.unwrap().to_bytes(), "abc");
    }
}
