//! Transfers that take long: whether their caller still may is asked again while they last, and who may not any more is cut off.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::BoxError;
use bytes::Bytes;
use ferrite_kit::grpc::Channel;
use ferrite_proto::error::reason;
use ferrite_proto::repo::ResolveAccessRequest;
use ferrite_proto::repo::access_service_client::AccessServiceClient;
use http_body::{Body, Frame, SizeHint};
use tonic::{Code, Status};

/// Ends when the caller of a transfer may not go on, with what repo-svc says then.
pub(crate) type Refused = Pin<Box<dyn Future<Output = Status> + Send>>;

/// Asks the question again and again, after `pause` each time. That repo-svc is not there is no refusal.
pub(crate) fn until_refused(
    access: AccessServiceClient<Channel>,
    question: ResolveAccessRequest,
    pause: Duration,
) -> Refused {
    Box::pin(async move {
        loop {
            tokio::time::sleep(pause).await;
            match access.clone().resolve_access(question.clone()).await {
                Err(status) if is_refusal(&status) => return status,
                Ok(_) | Err(_) => {}
            }
        }
    })
}

/// Only a status of our own speaks about the caller.
fn is_refusal(status: &Status) -> bool {
    matches!(status.code(), Code::NotFound | Code::PermissionDenied | Code::Unauthenticated) && reason(status).is_some()
}

/// A body that breaks off when its reader may not go on.
pub(crate) struct Guarded<B> {
    body: B,
    refused: Refused,
}

impl<B> Guarded<B> {
    /// `body`, until `refused` ends.
    pub(crate) fn new(body: B, refused: Refused) -> Self {
        Self { body, refused }
    }
}

impl<B> Body for Guarded<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.refused.as_mut().poll(cx).is_ready() {
            // It is not to be asked again.
            self.refused = Box::pin(std::future::pending());
            return Poll::Ready(Some(Err("the caller may not go on".into())));
        }
        Pin::new(&mut self.body).poll_frame(cx).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use ferrite_kit::auth::AuthError;
    use ferrite_proto::error::to_status;
    use http_body_util::{BodyExt as _, Full};

    use super::*;

    #[tokio::test]
    async fn a_body_breaks_off_when_its_reader_is_refused() {
        let never: Refused = Box::pin(std::future::pending());
        let whole = Guarded::new(Full::new(Bytes::from("abc")), never).collect().await.unwrap().to_bytes();
        assert_eq!(&whole[..], b"abc");
        let at_once: Refused = Box::pin(std::future::ready(Status::not_found("")));
        assert!(Guarded::new(Full::new(Bytes::from("abc")), at_once).collect().await.is_err());
    }

    #[test]
    fn only_our_own_no_is_one() {
        let ours = to_status(&AuthError::RepositoryNotFound);
        assert!(is_refusal(&ours));
        for other in [Status::not_found(""), Status::unavailable(""), Status::unauthenticated("")] {
            assert!(!is_refusal(&other), "{other:?}");
        }
    }
}
