//! Checks that a request is meant for this store. A caller with a wrong address gets that as the
//! error, rather than that its repository does not exist.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Router,
    extract::Request,
    middleware::{Next, from_fn},
    response::{IntoResponse as _, Response},
};
use ferrite_proto::metadata;
use git_store::types::error::GitError;
use http::{HeaderMap, header};
use parking_lot::Mutex;
use tonic::Status;

use super::error_response::ErrorResponse;
use crate::rpc_error::RpcError;

const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Name of this store, and time of the last log entry.
#[derive(Debug)]
struct OwnStore {
    name: String,
    logged: Mutex<Option<Instant>>,
}

/// Makes all routes of `router` reject requests that name a store other than `name`. Requests
/// without a store are accepted: the installation then has only one.
pub(crate) fn refuse_other_stores(router: Router, name: &str) -> Router {
    let own = Arc::new(OwnStore { name: name.to_owned(), logged: Mutex::default() });
    router.layer(from_fn(move |request: Request, next: Next| {
        let own = Arc::clone(&own);
        async move {
            match own.other(request.headers()) {
                None => next.run(request).await,
                Some(asked) => own.refuse(&asked, request.headers()),
            }
        }
    }))
}

impl OwnStore {
    /// Returns the requested store if it is a different one.
    fn other(&self, headers: &HeaderMap) -> Option<String> {
        let asked = headers.get(metadata::STORE)?;
        (asked.as_bytes() != self.name.as_bytes()).then(|| String::from_utf8_lossy(asked.as_bytes()).into_owned())
    }

    fn refuse(&self, asked: &str, headers: &HeaderMap) -> Response {
        metrics::counter!("ferrite_git_misrouted_requests_total").increment(1);
        if self.is_log_due(Instant::now()) {
            // A warning: the caller has a wrong address, or an administrator added a store that does not exist.
            tracing::warn!(
                "received a request for store `{}`, but this is store `{}`: check FERRITE_GIT_ADDRESS on the callers",
                asked.escape_debug(),
                self.name
            );
        }
        let is_grpc =
            headers.get(header::CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"));
        let error = RpcError::from(GitError::WrongStore);
        if is_grpc { Status::from(error).into_http() } else { ErrorResponse::from(error).into_response() }
    }

    fn is_log_due(&self, now: Instant) -> bool {
        let mut logged = self.logged.lock();
        let is_due = logged.is_none_or(|last| now.duration_since(last) >= LOG_INTERVAL);
        if is_due {
            *logged = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, routing::get};
    use http::StatusCode;
    use tower::ServiceExt as _;

    use super::*;

    async fn ask(content_type: &str, store: Option<&str>) -> Response {
        let router = refuse_other_stores(Router::new().route("/x", get(|| async { "served" })), "git-1");
        let mut request = http::Request::builder().uri("/x").header("content-type", content_type);
        if let Some(store) = store {
            request = request.header(metadata::STORE, store);
        }
        router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    }

    #[tokio::test]
    async fn requests_for_another_store_are_refused_in_the_form_of_their_protocol() {
        for store in [None, Some("git-1")] {
            assert_eq!(ask("text/plain", store).await.status(), StatusCode::OK, "{store:?}");
        }
        for store in ["git-10", "git", "", "GIT-1"] {
            let refused = ask("text/plain", Some(store)).await;
            assert_eq!(refused.status(), StatusCode::CONFLICT, "{store}");
            assert_eq!(refused.headers()["ferrite-reason"], "WRONG_STORE");
        }
        let refused = ask("application/grpc+proto", Some("git-0")).await;
        assert_eq!((refused.status(), &refused.headers()["grpc-status"]), (StatusCode::OK, &"9".parse().unwrap()));
    }

    #[test]
    fn a_wrong_address_is_logged_once_a_minute() {
        let own = OwnStore { name: "s".to_owned(), logged: Mutex::default() };
        let start = Instant::now();
        assert!(own.is_log_due(start) && !own.is_log_due(start + LOG_INTERVAL / 2));
        assert!(own.is_log_due(start + LOG_INTERVAL) && !own.is_log_due(start + LOG_INTERVAL));
    }
}
