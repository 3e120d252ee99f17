//! Retries calls where that is safe, within one deadline.
//!
//! A read is retried on `UNAVAILABLE` and on lost connections: at once on another replica, and
//! after a delay on any. Any other call is retried only if it was never sent, or the service says
//! that it has not begun it. Callers retry writes themselves, with an idempotency key.
//!
//! `tower::retry` cannot replace this: its policy does not see which replica had the call, so it
//! cannot choose another one.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ferrite_core::telemetry::ClientCall;
use ferrite_proto::operation::is_repeatable;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use rand::Rng;
use tonic::Status;
use tonic::body::Body;

use super::connection::{CallError, CallResult};
use super::repeatable_body::RepeatableBody;
use super::replicas::{Replica, ReplicaSet};
use super::timeout::call_deadline;

/// Deadline of an outgoing call whose `grpc-timeout` is absent or later.
const CLIENT_DEADLINE: Duration = Duration::from_secs(30);
/// Maximum delays before each retry. The actual delay is random, at least half of it.
const RETRY_DELAYS_MS: &[u64] = &[20, 100, 400, 1_000];
/// Replicas that are tried without a delay in between.
const MAX_TRIED_AT_ONCE: usize = 3;
/// `grpc-status` of `UNAVAILABLE`.
const UNAVAILABLE: &str = "14";

/// Makes a call to one of `replicas` and retries it where that is safe, until the deadline of the
/// request. Error statuses of the service are responses.
pub(super) async fn call(replicas: &ReplicaSet, request: Request<Body>) -> CallResult {
    let deadline = call_deadline(&request, CLIENT_DEADLINE);
    let late = |_| Ok(Status::deadline_exceeded("deadline exceeded").into_http());
    // The deadline covers all attempts together.
    tokio::time::timeout(deadline, send(replicas, request)).await.unwrap_or_else(late)
}

/// Sends a call until there is a response or it may not be retried. Moves to another replica at
/// once, or retries the same one after a delay: a git store has a single process, which may be
/// restarting.
async fn send(replicas: &ReplicaSet, request: Request<Body>) -> CallResult {
    let is_repeatable = is_repeatable(request.uri().path().trim_start_matches('/'));
    let (parts, mut body) = request.into_parts();
    if is_repeatable {
        // Idempotent methods are unary, so their requests are in memory: reading them neither fails
        // nor waits.
        let bytes = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_else(|_| Bytes::new());
        body = Body::new(Full::new(bytes));
    }
    let body = RepeatableBody::new(body);
    let mut delays = RETRY_DELAYS_MS.iter();
    let mut tried: Vec<Arc<Replica>> = Vec::new();
    loop {
        let attempt = Request::from_parts(parts.clone(), body.attempt());
        let result = match replicas.pick(&tried).await {
            Err(status) => Ok(status.into_http()),
            Ok(replica) => {
                let result = if is_repeatable && replicas.is_several() {
                    replica.send_while_reachable(attempt).await
                } else {
                    replica.send(attempt).await
                };
                if let Err(error) = &result {
                    replicas.note_failure(&replica, error);
                }
                tried.push(replica);
                result
            }
        };
        let is_safe = match &result {
            Ok(response) => is_repeatable && is_unavailable(response),
            Err(error) => is_repeatable || body.is_unsent() || is_not_begun(error),
        };
        if !is_safe || !body.is_whole() {
            return result;
        }
        if tried.len() >= MAX_TRIED_AT_ONCE || !replicas.has_other(&tried) {
            let Some(delay) = delays.next() else { return result };
            pause(*delay).await;
            // Avoid only the replica that failed last; the others may have recovered.
            tried = tried.pop().into_iter().collect();
        }
        ClientCall::retried(parts.uri.path());
    }
}

/// Whether the service has not begun the call: it closed the connection and named earlier calls as
/// the last ones (RFC 9113, section 6.8), or refused this one (section 8.7).
fn is_not_begun(error: &CallError) -> bool {
    let mut causes = std::iter::successors(error.source(), |cause| (**cause).source());
    causes.find_map(|cause| cause.downcast_ref::<h2::Error>()).is_some_and(|error| {
        let is_refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
        let is_stopped = error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR);
        error.is_remote() && (is_refused || is_stopped)
    })
}

/// Waits for a random time between half of `delay` and `delay`, in milliseconds.
async fn pause(delay: u64) {
    let jittered = rand::rng().random_range(delay / 2..=delay);
    tokio::time::sleep(Duration::from_millis(jittered)).await;
}

fn is_unavailable(response: &Response<Body>) -> bool {
    response.headers().get("grpc-status").is_some_and(|code| code == UNAVAILABLE)
}
