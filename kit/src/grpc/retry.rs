//! Retries of idempotent gRPC calls within one deadline.
//!
//! Not here: retries of writes. Their callers repeat them, with an idempotency key.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use rand::Rng;
use tonic::body::Body;
use tonic::{Status, TimeoutExpired};
use tower::{Service, ServiceExt};

use super::timeout::call_deadline;

/// Deadline of an outgoing call whose `grpc-timeout` is absent or later.
const CLIENT_DEADLINE: Duration = Duration::from_secs(30);
/// Verbs of idempotent methods. `Deliver` is one of them because an event sink applies an event once.
const IDEMPOTENT_VERBS: &[&str] = &["Get", "List", "Search", "Is", "Authenticate", "Resolve", "Deliver"];
/// Time before each retry, at most; the actual time is random, at least half of it.
const RETRY_DELAYS_MS: &[u64] = &[20, 100, 400, 1_000];
/// `grpc-status` of `UNAVAILABLE`.
const UNAVAILABLE: &str = "14";

/// Service that retries idempotent calls on `UNAVAILABLE` and on failures of the transport, within one deadline.
#[derive(Clone, Debug)]
pub(super) struct Retry<S>(S);

impl<S> Retry<S> {
    pub(super) fn new(inner: S) -> Self {
        Self(inner)
    }
}

/// Returns whether the method at `path` begins with an idempotent verb.
fn is_idempotent(path: &str) -> bool {
    let method = path.rsplit('/').next().unwrap_or_default();
    // `IsMember` begins with the verb `Is`; `IssueToken` does not.
    let is_verb = |rest: &str| !rest.starts_with(|next: char| next.is_ascii_lowercase());
    IDEMPOTENT_VERBS.iter().any(|verb| method.strip_prefix(verb).is_some_and(is_verb))
}

impl<S> Service<Request<Body>> for Retry<S>
where
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Error + Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let inner = self.0.clone();
        let is_idempotent = is_idempotent(request.uri().path());
        let deadline = call_deadline(&request, CLIENT_DEADLINE);
        Box::pin(async move {
            // The deadline covers all attempts together.
            let attempts = async {
                if is_idempotent { send_with_retries(inner, request).await } else { inner.oneshot(request).await }
            };
            match tokio::time::timeout(deadline, attempts).await {
                Ok(Err(error)) if is_timeout(&error) => Ok(deadline_exceeded()),
                Ok(outcome) => outcome,
                Err(_) => Ok(deadline_exceeded()),
            }
        })
    }
}

/// Returns the response to a call past its deadline, whether the timeout below or the one of the transport ended it.
fn deadline_exceeded() -> Response<Body> {
    Status::deadline_exceeded("deadline exceeded").into_http()
}

fn is_timeout(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<TimeoutExpired>() {
            return true;
        }
        cause = error.source();
    }
    false
}

async fn send_with_retries<S>(inner: S, request: Request<Body>) -> Result<Response<Body>, S::Error>
where
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
{
    let (parts, body) = request.into_parts();
    // Idempotent methods are unary, so their requests are encoded in memory: reading them neither fails nor waits.
    let bytes = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_else(|_| Bytes::new());
    for delay in RETRY_DELAYS_MS {
        let attempt = Request::from_parts(parts.clone(), Body::new(Full::new(bytes.clone())));
        match inner.clone().oneshot(attempt).await {
            Ok(response) if response.headers().get("grpc-status").is_none_or(|code| code != UNAVAILABLE) => {
                return Ok(response);
            }
            Ok(_) | Err(_) => {}
        }
        let jittered = rand::rng().random_range(delay / 2..=*delay);
        tokio::time::sleep(Duration::from_millis(jittered)).await;
    }
    inner.oneshot(Request::from_parts(parts, Body::new(Full::new(bytes)))).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_that_change_nothing_are_repeated() {
        assert!(is_idempotent("/ferrite.repo.v1.RepositoryService/GetRepository"));
        assert!(is_idempotent("/ferrite.events.v1.EventSink/Deliver"));
        assert!(!is_idempotent("/ferrite.repo.v1.RepositoryService/CreateRepository"));
        assert!(!is_idempotent("/ferrite.git.v1.GitService/PutContents"));
        assert!(!is_idempotent("/x/IssueToken"));
        assert!(is_idempotent("/x/IsMember"));
        assert!(!is_idempotent(""));
    }
}
