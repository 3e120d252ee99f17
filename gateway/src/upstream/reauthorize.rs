//! Repeated authorization of long transfers: repo-svc is asked again while a transfer lasts, and a transfer whose caller lost its
//! permission is cut off.

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

/// A future that completes when the permission of a caller is revoked, with the status of repo-svc.
pub(crate) type Revoked = Pin<Box<dyn Future<Output = Status> + Send>>;

/// Resolves `request` anew every `interval` until repo-svc refuses it. A failure to reach repo-svc revokes nothing.
pub(crate) fn until_revoked(
    access: AccessServiceClient<Channel>,
    request: ResolveAccessRequest,
    interval: Duration,
) -> Revoked {
    Box::pin(async move {
        loop {
            tokio::time::sleep(interval).await;
            match access.clone().resolve_access(request.clone()).await {
                Err(status) if is_refusal(&status) => return status,
                Ok(_) | Err(_) => {}
            }
        }
    })
}

/// Returns whether a status refuses the caller. A status without `ErrorInfo` comes from the transport and says nothing about it.
fn is_refusal(status: &Status) -> bool {
    matches!(status.code(), Code::NotFound | Code::PermissionDenied | Code::Unauthenticated) && reason(status).is_some()
}

/// A body that ends with an error when the permission of its reader is revoked.
pub(crate) struct ReauthorizedBody<B> {
    body: B,
    revoked: Revoked,
}

impl<B> ReauthorizedBody<B> {
    /// Wraps `body` until `revoked` completes.
    pub(crate) fn new(body: B, revoked: Revoked) -> Self {
        Self { body, revoked }
    }
}

impl<B> Body for ReauthorizedBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.revoked.as_mut().poll(cx).is_ready() {
            // A completed future must not be polled again.
            self.revoked = Box::pin(std::future::pending());
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
    async fn a_body_breaks_off_when_its_permission_is_revoked() {
        let never: Revoked = Box::pin(std::future::pending());
        let whole = ReauthorizedBody::new(Full::new(Bytes::from("abc")), never).collect().await.unwrap().to_bytes();
        assert_eq!(&whole[..], b"abc");
        let at_once: Revoked = Box::pin(std::future::ready(Status::not_found("")));
        assert!(ReauthorizedBody::new(Full::new(Bytes::from("abc")), at_once).collect().await.is_err());
    }

    #[test]
    fn only_a_status_of_a_service_is_a_refusal() {
        let refusal = to_status(&AuthError::RepositoryNotFound);
        assert!(is_refusal(&refusal));
        for other in [Status::not_found(""), Status::unavailable(""), Status::unauthenticated("")] {
            assert!(!is_refusal(&other), "{other:?}");
        }
    }
}
