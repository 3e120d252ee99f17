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

use super::timeout::{CLIENT_DEADLINE, requested_timeout};

/// Verbs of calls that change nothing, or nothing more when repeated: an event sink knows the events it has seen.
const IDEMPOTENT: &[&str] = &["Get", "List", "Search", "Is", "Authenticate", "Resolve", "Deliver"];
const PAUSES_MS: &[u64] = &[20, 100, 400, 1_000];
const UNAVAILABLE: &str = "14";

/// Repeats idempotent calls that the transport could not deliver.
#[derive(Clone, Debug)]
pub(super) struct Retry<S>(S);

impl<S> Retry<S> {
    pub(super) fn new(inner: S) -> Self {
        Self(inner)
    }
}

fn is_idempotent(path: &str) -> bool {
    let method = path.rsplit('/').next().unwrap_or_default();
    // `Is` is a verb, the start of `Issue` is not.
    let is_verb = |rest: &str| !rest.starts_with(|next: char| next.is_ascii_lowercase());
    IDEMPOTENT.iter().any(|verb| method.strip_prefix(verb).is_some_and(is_verb))
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
        let deadline = requested_timeout(request.headers()).min(CLIENT_DEADLINE);
        Box::pin(async move {
            // All attempts together: the caller set one deadline, not one for each.
            let attempts =
                async { if is_idempotent { repeat(inner, request).await } else { inner.oneshot(request).await } };
            match tokio::time::timeout(deadline, attempts).await {
                Ok(Err(error)) if is_timeout(&error) => Ok(late()),
                Ok(outcome) => outcome,
                Err(_) => Ok(late()),
            }
        })
    }
}

/// What a caller is told whose time is up, whichever clock noticed it first.
fn late() -> Response<Body> {
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

async fn repeat<S>(inner: S, request: Request<Body>) -> Result<Response<Body>, S::Error>
where
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
{
    let (parts, body) = request.into_parts();
    // Our own client encodes unary requests in memory, so this cannot fail or wait.
    let bytes = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_else(|_| Bytes::new());
    for pause in PAUSES_MS {
        let attempt = Request::from_parts(parts.clone(), Body::new(Full::new(bytes.clone())));
        match inner.clone().oneshot(attempt).await {
            Ok(response) if response.headers().get("grpc-status").is_none_or(|code| code != UNAVAILABLE) => {
                return Ok(response);
            }
            Ok(_) | Err(_) => {}
        }
        let jittered = rand::rng().random_range(pause / 2..=*pause);
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
