use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;

use crate::git::error::Refusal;

/// How long git-svc is taken at its word: it says something else only after it was replaced.
const KEPT: Duration = Duration::from_secs(10);
/// Far more than git says.
const MAX_BYTES: usize = 16 * 1024;
/// How long git-svc may take to say it, once it has begun.
const DEADLINE: Duration = Duration::from_secs(10);

/// What git says it can do in version 2 of its protocol: the same for every repository of an installation. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Capabilities(Arc<Mutex<Option<(Instant, Bytes)>>>);

impl Capabilities {
    /// What git-svc said a moment ago.
    pub(crate) fn get(&self) -> Option<Bytes> {
        // Nothing panics while it is held.
        let said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.as_ref().filter(|(when, _)| when.elapsed() < KEPT).map(|(_, said)| said.clone())
    }

    /// Keeps what git-svc says, and passes it on.
    pub(crate) async fn keep(&self, body: Incoming) -> Result<Body, Refusal> {
        let whole = tokio::time::timeout(DEADLINE, Limited::new(body, MAX_BYTES).collect()).await;
        let said = whole.map_err(|_| Refusal::Unavailable(None))?.map_err(|_| Refusal::Interrupted)?.to_bytes();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), said.clone()));
        Ok(Body::from(said))
    }
}
