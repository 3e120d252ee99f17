//! The body of a call that may be sent again: a read, a call that was never sent, or one that the
//! service has not begun.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use tonic::Status;
use tonic::body::Body;

/// Longer messages are not kept for a retry once a part was sent. Most have a few hundred bytes.
const MAX_KEPT_BYTES: usize = 4 * 1024 * 1024;

/// A body that can be given to one attempt after the other.
#[derive(Clone)]
pub(super) struct RepeatableBody(Arc<Mutex<State>>);

struct State {
    body: Body,
    /// The frames that attempts have read so far.
    kept: Vec<Bytes>,
    kept_bytes: usize,
    /// True once an attempt has read from the body.
    is_begun: bool,
    /// False once something was read and not kept.
    is_whole: bool,
}

impl RepeatableBody {
    pub(super) fn new(body: Body) -> Self {
        let state = State { body, kept: Vec::new(), kept_bytes: 0, is_begun: false, is_whole: true };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Whether no attempt has read from the body. Then the service cannot have acted, because it
    /// waits for the message.
    pub(super) fn is_unsent(&self) -> bool {
        !self.0.lock().is_begun
    }

    /// Whether the next attempt would send the same as the previous ones.
    pub(super) fn is_whole(&self) -> bool {
        self.0.lock().is_whole
    }

    pub(super) fn attempt(&self) -> Body {
        Body::new(AttemptBody { body: self.clone(), next: 0 })
    }
}

impl State {
    /// Reads the next frame and keeps it if there is room.
    fn read(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.is_begun = true;
        let read = http_body::Body::poll_frame(Pin::new(&mut self.body), cx);
        match &read {
            Poll::Ready(Some(Ok(frame))) => match frame.data_ref() {
                Some(data) if self.is_whole && self.kept_bytes + data.len() <= MAX_KEPT_BYTES => {
                    self.kept_bytes += data.len();
                    self.kept.push(data.clone());
                }
                Some(_) | None => self.forget(),
            },
            Poll::Ready(Some(Err(_))) => self.forget(),
            Poll::Ready(None) | Poll::Pending => {}
        }
        read
    }

    fn forget(&mut self) {
        self.is_whole = false;
        self.kept = Vec::new();
    }
}

/// The body of one attempt: the kept frames, then the rest.
struct AttemptBody {
    body: RepeatableBody,
    /// Number of kept frames that this attempt has read.
    next: usize,
}

impl http_body::Body for AttemptBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let body = self.body.clone();
        let mut state = body.0.lock();
        if let Some(data) = state.kept.get(self.next) {
            self.next += 1;
            return Poll::Ready(Some(Ok(Frame::data(data.clone()))));
        }
        let read = state.read(cx);
        self.next = state.kept.len();
        read
    }

    fn is_end_stream(&self) -> bool {
        let state = self.body.0.lock();
        self.next >= state.kept.len() && http_body::Body::is_end_stream(&state.body)
    }

    fn size_hint(&self) -> SizeHint {
        let state = self.body.0.lock();
        if state.is_begun { SizeHint::default() } else { http_body::Body::size_hint(&state.body) }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, Full};

    use super::*;

    fn body(bytes: &[u8]) -> RepeatableBody {
        RepeatableBody::new(Body::new(Full::new(Bytes::copy_from_slice(bytes))))
    }

    #[tokio::test]
    async fn a_body_goes_to_the_next_attempt_as_long_as_none_reads_it() {
        let body = body(b"message");
        drop(body.attempt());
        assert!(body.is_unsent() && body.is_whole());
        assert_eq!(body.attempt().collect().await.unwrap().to_bytes(), "message");
        assert!(!body.is_unsent());
    }

    #[tokio::test]
    async fn an_attempt_sends_what_those_before_it_have_read() {
        let body = body(b"message");
        let mut first = body.attempt();
        let frame = first.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), "message");
        assert!(body.is_whole());
        for _ in 0..2 {
            assert_eq!(body.attempt().collect().await.unwrap().to_bytes(), "message");
        }
    }

    #[tokio::test]
    async fn a_long_message_that_was_read_is_not_whole_any_more() {
        let body = body(&vec![1; MAX_KEPT_BYTES + 1]);
        assert!(body.is_whole());
        assert_eq!(body.attempt().collect().await.unwrap().to_bytes().len(), MAX_KEPT_BYTES + 1);
        assert!(!body.is_whole() && !body.is_unsent());
    }
}
