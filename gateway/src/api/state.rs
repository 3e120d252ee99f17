//! State of the API's handlers.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::blocking::BlockingPools;
use crate::http::body_limits::BodyLimits;
use crate::upstream::clients::Clients;
use crate::upstream::git_client::GitHttpClient;
use crate::upstream::reauthorize::Reauthorizer;
use ferrite_api_types::links::Links;
use ferrite_core::Lifecycle;

/// State of the API's handlers. One `Arc`: the router clones it several times for each request.
#[derive(Clone)]
pub(crate) struct ApiState(Arc<ApiParts>);

impl ApiState {
    pub(crate) fn new(parts: ApiParts) -> Self {
        Self(Arc::new(parts))
    }
}

impl Deref for ApiState {
    type Target = ApiParts;

    fn deref(&self) -> &ApiParts {
        &self.0
    }
}

/// The parts of [`ApiState`].
pub(crate) struct ApiParts {
    pub(crate) clients: Clients,
    /// Files and archives of git-svc.
    pub(crate) git_client: GitHttpClient,
    /// Asks about the callers of those that take long.
    pub(crate) reauthorizer: Reauthorizer,
    pub(crate) links: Links,
    pub(crate) body_limits: BodyLimits,
    /// Bytes of the largest JSON response.
    pub(crate) max_response_bytes: usize,
    pub(crate) blocking: BlockingPools,
    /// Longest time for which a request waits for an import.
    pub(crate) import_wait: Duration,
    /// Bytes of the largest file of a release.
    pub(crate) max_asset_bytes: u64,
    /// Streams of events end with the process.
    pub(crate) life: Lifecycle,
}
