//! What every handler has at hand.

use std::sync::Arc;
use std::time::Duration;

use ferrite_kit::Clock;
use ferrite_kit::boot::StartError;
use tokio::sync::Semaphore;

use crate::Config;
use crate::http::links::Links;
use crate::upstream::capabilities::Capabilities;
use crate::upstream::clients::Clients;
use crate::upstream::git_client::Bulk;

/// Bodies above the ordinary limit that may be in memory at once.
const LARGE_BODIES: usize = 8;

/// What every handler has at hand; cheap to clone.
#[derive(Clone)]
pub(crate) struct Gateway {
    /// gRPC clients of the services.
    pub(crate) clients: Clients,
    /// HTTP bodies of git-svc.
    pub(crate) bulk: Bulk,
    /// What git-svc says that fetches begin with.
    pub(crate) capabilities: Capabilities,
    /// Addresses inside answers.
    pub(crate) links: Links,
    /// After which time callers of long transfers are asked about again.
    pub(crate) recheck: Duration,
    /// Whether the API takes a token from the query.
    pub(crate) allow_query_token: bool,
    /// Slots for large bodies.
    pub(crate) large_bodies: Arc<Semaphore>,
    /// How long a client may pause inside a body.
    pub(crate) body_pause: Duration,
}

impl Gateway {
    /// The parts that `config` describes. Connects to nothing yet.
    pub(crate) fn new(config: &Config, clock: &Clock) -> Result<Self, StartError> {
        let trust = config.trust.load("gateway", clock)?;
        let clients = Clients {
            repo: trust.channel(&config.repo_address),
            issue: trust.channel(&config.issue_address),
            hook: trust.channel(&config.hook_address),
            git: trust.channel(&config.git_address),
        };
        Ok(Self {
            clients,
            bulk: Bulk::new(config.git_address.clone(), Arc::clone(&trust.credential)),
            capabilities: Capabilities::default(),
            links: Links::new(&config.public_url, &config.ssh),
            recheck: Duration::from_secs(config.recheck_seconds.into()),
            allow_query_token: config.allow_query_token,
            large_bodies: Arc::new(Semaphore::new(LARGE_BODIES)),
            body_pause: config.body_pause,
        })
    }
}
