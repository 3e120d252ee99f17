//! The body of a call that the transport has not begun to read, so that a call that was never sent can be sent again.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;

/// A body that can be given to one attempt after the other, as long as none has read from it. Until then the service cannot have acted:
/// it waits for the message.
#[derive(Clone)]
pub(super) struct UnsentBody(Arc<Mutex<Option<Body>>>);

impl UnsentBody {
    pub(super) fn new(body: Body) -> Self {
        Self(Arc::new(Mutex::new(Some(body))))
    }

    /// Returns whether no attempt has read from the body.
    pub(super) fn is_unsent(&self) -> bool {
        self.with(|body| body.is_some())
    }

    /// Returns the body for the next attempt.
    pub(super) fn attempt(&self) -> Body {
        Body::new(AttemptBody { unsent: self.clone(), taken: None })
    }

    fn with<T>(&self, read: impl FnOnce(&mut Option<Body>) -> T) -> T {
        // Nothing panics while the lock is held.
        read(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The body of one attempt: takes the body when it is read for the first time.
struct AttemptBody {
    unsent: UnsentBody,
    taken: Option<Body>,
}

impl http_body::Body for AttemptBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.taken.is_none() {
            self.taken = self.unsent.with(Option::take);
        }
        match &mut self.taken {
            Some(body) => http_body::Body::poll_frame(Pin::new(body), cx),
            None => Poll::Ready(Some(Err(Status::internal("the body belongs to another attempt")))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.taken {
            Some(body) => http_body::Body::is_end_stream(body),
            None => self.unsent.with(|body| body.as_ref().is_none_or(http_body::Body::is_end_stream)),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.taken {
            Some(body) => http_body::Body::size_hint(body),
            None => self.unsent.with(|body| body.as_ref().map_or_else(SizeHint::default, http_body::Body::size_hint)),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, Full};

    use super::*;

    #[tokio::test]
    async fn a_body_goes_to_the_next_attempt_until_one_reads_it() {
        let unsent = UnsentBody::new(Body::new(Full::new(Bytes::from_static(b"message"))));
        drop(unsent.attempt());
        let second = unsent.attempt();
        assert!(unsent.is_unsent() && !http_body::Body::is_end_stream(&second));
        assert_eq!(second.collect().await.unwrap().to_bytes(), "message");
        assert!(!unsent.is_unsent());
        assert!(unsent.attempt().collect().await.is_err());
    }
}
