use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use rand::Rng;
use tonic::body::Body;
use tower::{Service, ServiceExt};

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
    IDEMPOTENT.iter().any(|verb| method.starts_with(verb))
}

impl<S> Service<Request<Body>> for Retry<S>
where
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let inner = self.0.clone();
        if !is_idempotent(request.uri().path()) {
            return Box::pin(inner.oneshot(request));
        }
        Box::pin(repeat(inner, request))
    }
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
    }
}
