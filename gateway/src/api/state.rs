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

/// State of the API handlers. A single `Arc`, because the router clones it several times per
/// request.
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

pub(crate) struct ApiParts {
    pub(crate) clients: Clients,
    pub(crate) git_client: GitHttpClient,
    pub(crate) reauthorizer: Reauthorizer,
    pub(crate) links: Links,
    pub(crate) body_limits: BodyLimits,
    pub(crate) max_response_bytes: usize,
    pub(crate) blocking: BlockingPools,
    /// Longest time that a request waits for an import.
    pub(crate) import_wait: Duration,
    pub(crate) max_asset_bytes: u64,
    /// Whether also reads of what is public need a token.
    pub(crate) requires_account: bool,
    /// Event streams end when the process stops.
    pub(crate) life: Lifecycle,
}
