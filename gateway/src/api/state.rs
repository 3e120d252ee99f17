//! State of the API's handlers.

use crate::http::body_limits::BodyLimits;
use crate::upstream::clients::Clients;
use crate::upstream::git_client::GitHttpClient;
use ferrite_kit::Lifecycle;
use ferrite_rest::links::Links;

/// State of the API's handlers; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct ApiState {
    pub(crate) clients: Clients,
    /// Files and archives of git-svc.
    pub(crate) git_client: GitHttpClient,
    pub(crate) links: Links,
    pub(crate) body_limits: BodyLimits,
    /// Streams of events end with the process.
    pub(crate) life: Lifecycle,
}
