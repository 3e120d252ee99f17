//! Rechecks the permission of long transfers with repo-svc, by the id of the credential. Cuts off a
//! transfer whose caller lost its permission, whether the client reads or not.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use axum::BoxError;
use bytes::Bytes;
use ferrite_core::Lifecycle;
use ferrite_proto::error::reason;
use ferrite_proto::repo::ReauthorizeAccessRequest;
use ferrite_proto::repo::access_service_client::AccessServiceClient;
use ferrite_rpc::grpc::Channel;
use ferrite_rpc::grpc::with_timeout;
use http_body::{Body, Frame, SizeHint};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use tonic::{Code, Status};

/// Deadline of one check. The next one follows after the interval.
const CALL_TIMEOUT: Duration = Duration::from_secs(2);

/// Completes with repo-svc's status when the caller's permission is revoked.
pub(crate) type Revoked = Pin<Box<dyn Future<Output = Status> + Send>>;

/// Rechecks the permission of running transfers; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Reauthorizer {
    access: AccessServiceClient<Channel>,
    interval: Duration,
    life: Lifecycle,
}

impl Reauthorizer {
    /// `interval` is the longest time between two checks of a transfer.
    pub(crate) fn new(access: AccessServiceClient<Channel>, interval: Duration, life: Lifecycle) -> Self {
        Self { access, interval, life }
    }

    pub(crate) fn interval(&self) -> Duration {
        self.interval
    }

    /// Checks `access` until repo-svc refuses it. A failure to reach repo-svc revokes nothing.
    /// Without `access` there is nothing to check.
    pub(crate) fn until_revoked(&self, access: Option<ReauthorizeAccessRequest>) -> Revoked {
        let Some(access) = access else { return Box::pin(std::future::pending()) };
        let (client, interval) = (self.access.clone(), self.interval);
        Box::pin(async move {
            loop {
                tokio::time::sleep(shortened(interval)).await;
                match client.clone().reauthorize_access(with_timeout(access.clone(), CALL_TIMEOUT)).await {
                    Err(status) if is_refusal(&status) => {
                        metrics::counter!("ferrite_transfers_revoked_total").increment(1);
                        return status;
                    }
                    Ok(_) | Err(_) => {}
                }
            }
        })
    }

    /// Wraps `body` so that it ends with an error when `revoked` completes. Its source is dropped
    /// at that moment, even if the client does not read.
    pub(crate) fn guard<B>(&self, body: B, revoked: Revoked) -> axum::body::Body
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError>,
    {
        let shared = Arc::new(Mutex::new(Guarded { body: Some(body), reader: None }));
        let (is_read, is_dropped) = oneshot::channel();
        let own = Arc::clone(&shared);
        self.life.spawn("reauthorization", async move {
            tokio::select! {
                _ = is_dropped => {}
                status = revoked => {
                    tracing::debug!(%status, "transfer cut off, permission revoked");
                    cut(&own);
                }
            }
        });
        axum::body::Body::new(ReauthorizedBody { shared, _is_read: is_read })
    }
}

/// Returns a random time between three quarters of the interval and all of it, so that transfers
/// that began together are not checked together.
fn shortened(interval: Duration) -> Duration {
    let random = u32::from(uuid::Uuid::new_v4().as_bytes()[0]);
    interval * (3 * 256 + random) / 1024
}

/// Whether a status refuses the caller, which includes rate limits. A status without `ErrorInfo`
/// comes from the transport and says nothing about the caller.
fn is_refusal(status: &Status) -> bool {
    let is_about_caller = matches!(
        status.code(),
        Code::NotFound | Code::PermissionDenied | Code::Unauthenticated | Code::ResourceExhausted
    );
    is_about_caller && reason(status).is_some()
}

struct Guarded<B> {
    /// `None` once the permission is revoked.
    body: Option<B>,
    reader: Option<Waker>,
}

fn cut<B>(shared: &Mutex<Guarded<B>>) {
    let mut guarded = lock(shared);
    let (body, reader) = (guarded.body.take(), guarded.reader.take());
    drop(guarded);
    drop(body);
    if let Some(reader) = reader {
        reader.wake();
    }
}

fn lock<B>(shared: &Mutex<Guarded<B>>) -> MutexGuard<'_, Guarded<B>> {
    // A body that panicked is not polled again.
    shared.lock()
}

struct ReauthorizedBody<B> {
    shared: Arc<Mutex<Guarded<B>>>,
    /// Dropped with the body, which stops the checks.
    _is_read: oneshot::Sender<()>,
}

impl<B> Body for ReauthorizedBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let mut guarded = lock(&self.shared);
        let Some(body) = &mut guarded.body else {
            return Poll::Ready(Some(Err("permission revoked".into())));
        };
        let frame = Pin::new(body).poll_frame(cx).map_err(Into::into);
        if frame.is_pending() && !guarded.reader.as_ref().is_some_and(|reader| reader.will_wake(cx.waker())) {
            guarded.reader = Some(cx.waker().clone());
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        lock(&self.shared).body.as_ref().is_some_and(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        lock(&self.shared).body.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}

#[cfg(test)]
mod tests {
    use ferrite_proto::error::{Kind, ServiceError, to_status};
    use ferrite_rpc::auth::AuthError;
    use ferrite_rpc::grpc::channel;
    use http_body_util::{BodyExt as _, Full, StreamBody};

    use super::*;

    fn reauthorizer() -> Reauthorizer {
        let access = AccessServiceClient::new(channel(ferrite_core::net::Address::Tcp("127.0.0.1:9".into()), None));
        Reauthorizer::new(access, Duration::from_secs(3), Lifecycle::new(Duration::from_secs(1)))
    }

    #[tokio::test]
    async fn a_body_breaks_off_when_its_permission_is_revoked() {
        let never: Revoked = Box::pin(std::future::pending());
        let whole = reauthorizer().guard(Full::new(Bytes::from("abc")), never).collect().await.unwrap().to_bytes();
        assert_eq!(&whole[..], b"abc");
        // The source blocks, and the reader waits for it.
        let (revoke, revoked) = oneshot::channel::<()>();
        let revoked: Revoked = Box::pin(async move {
            drop(revoked.await);
            Status::not_found("")
        });
        let (source, frames) = tokio::sync::mpsc::channel::<Result<Frame<Bytes>, BoxError>>(1);
        let frames =
            futures_util::stream::unfold(frames, |mut frames| async move { Some((frames.recv().await?, frames)) });
        let waiting = reauthorizer().guard(StreamBody::new(Box::pin(frames)), revoked);
        let (ended, ()) = tokio::join!(waiting.collect(), async { drop(revoke) });
        assert!(ended.is_err());
        assert!(source.is_closed(), "the source was dropped");
    }

    #[tokio::test]
    async fn the_source_of_a_body_that_is_not_read_is_dropped_as_well() {
        let (source, frames) = tokio::sync::mpsc::channel::<Result<Frame<Bytes>, BoxError>>(1);
        let frames =
            futures_util::stream::unfold(frames, |mut frames| async move { Some((frames.recv().await?, frames)) });
        let at_once: Revoked = Box::pin(std::future::ready(Status::not_found("")));
        let unread = reauthorizer().guard(StreamBody::new(Box::pin(frames)), at_once);
        tokio::time::timeout(Duration::from_secs(10), source.closed()).await.unwrap();
        assert!(unread.collect().await.is_err());
    }

    #[test]
    fn questions_come_before_the_interval_ends() {
        let interval = Duration::from_secs(3);
        for _ in 0..100 {
            let shortened = shortened(interval);
            assert!(shortened <= interval && shortened >= interval * 3 / 4, "{shortened:?}");
        }
    }

    #[derive(Debug, thiserror::Error)]
    #[error("too many attempts")]
    struct Throttled;

    impl ServiceError for Throttled {
        fn classify(&self) -> (Kind, &'static str) {
            (Kind::RateLimited, "TOO_MANY_ATTEMPTS")
        }

        fn domain(&self) -> &'static str {
            "test"
        }
    }

    #[test]
    fn only_a_status_of_a_service_is_a_refusal() {
        assert!(is_refusal(&to_status(&AuthError::RepositoryNotFound)) && is_refusal(&to_status(&Throttled)));
        for other in [Status::not_found(""), Status::unavailable(""), Status::resource_exhausted("")] {
            assert!(!is_refusal(&other), "{other:?}");
        }
        assert!(!is_refusal(&to_status(&AuthError::Unavailable)));
    }
}
