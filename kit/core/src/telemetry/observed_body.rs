//! The body of a gRPC response, whose trailers hold the status of the call.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use tonic::Code;

use super::operation::CANCELLED;

pub(super) const GRPC_STATUS: &str = "grpc-status";

pub(super) trait CallEnd {
    /// Records the status and duration of the call.
    fn end(self, code: Code);
}

/// A body that reports the status of its call when the trailers pass. If dropped earlier, the call
/// counts as cancelled.
#[derive(Debug)]
pub(super) struct ObservedBody<B, E: CallEnd> {
    inner: B,
    end: Option<E>,
}

impl<B, E: CallEnd> ObservedBody<B, E> {
    pub(super) fn new(inner: B, end: E) -> Self {
        Self { inner, end: Some(end) }
    }

    fn end(&mut self, code: Code) {
        if let Some(end) = self.end.take() {
            end.end(code);
        }
    }
}

impl<B, E: CallEnd> Drop for ObservedBody<B, E> {
    fn drop(&mut self) {
        self.end(CANCELLED);
    }
}

impl<B, E> Body for ObservedBody<B, E>
where
    B: Body + Unpin,
    E: CallEnd + Unpin,
{
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        match &frame {
            Some(Ok(frame)) => {
                if let Some(trailers) = frame.trailers_ref() {
                    self.end(status_of(trailers).unwrap_or(Code::Unknown));
                }
            }
            Some(Err(_)) => self.end(Code::Unavailable),
            // The stream ended without trailers.
            None => self.end(Code::Unknown),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Returns the status in headers or trailers, if any.
pub(super) fn status_of(headers: &HeaderMap) -> Option<Code> {
    headers.get(GRPC_STATUS).map(|value| Code::from_bytes(value.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use bytes::Bytes;
    use http::HeaderValue;
    use http_body_util::{BodyExt, StreamBody};

    use super::*;

    #[derive(Clone, Debug, Default)]
    struct Ends(Arc<Mutex<Vec<Code>>>);

    impl CallEnd for Ends {
        fn end(self, code: Code) {
            self.0.lock().unwrap().push(code);
        }
    }

    fn trailers(status: &'static str) -> Frame<Bytes> {
        let mut trailers = HeaderMap::new();
        trailers.insert(GRPC_STATUS, HeaderValue::from_static(status));
        Frame::trailers(trailers)
    }

    async fn ends(frames: Vec<Result<Frame<Bytes>, std::io::Error>>) -> Vec<Code> {
        let ends = Ends::default();
        let body = ObservedBody::new(StreamBody::new(tokio_stream::iter(frames)), ends.clone());
        let _ = body.collect().await;
        let ends = ends.0.lock().unwrap();
        ends.clone()
    }

    #[tokio::test]
    async fn the_status_of_a_call_is_that_of_its_trailers() {
        let data = || Ok(Frame::data(Bytes::from_static(b"x")));
        assert_eq!(ends(vec![data(), Ok(trailers("0"))]).await, [Code::Ok]);
        assert_eq!(ends(vec![data(), Ok(trailers("13"))]).await, [Code::Internal]);
        assert_eq!(ends(vec![data(), Ok(trailers("x"))]).await, [Code::Unknown]);
        assert_eq!(ends(vec![data()]).await, [Code::Unknown]);
        assert_eq!(ends(vec![data(), Err(std::io::Error::other("reset"))]).await, [Code::Unavailable]);
    }

    #[test]
    fn a_call_whose_body_is_dropped_was_cancelled() {
        let ends = Ends::default();
        drop(ObservedBody::new(StreamBody::new(tokio_stream::empty::<Result<Frame<Bytes>, ()>>()), ends.clone()));
        assert_eq!(*ends.0.lock().unwrap(), [Code::Cancelled]);
    }
}
