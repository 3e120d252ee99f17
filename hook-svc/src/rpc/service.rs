use ferrite_kit::Clock;
use ferrite_kit::auth::Access;
use ferrite_kit::grpc::Channel;
use ferrite_kit::outbox::Relay;
use ferrite_kit::rate_limit::HourlyLimit;
use ferrite_outbound::Policy;

use crate::dispatch::Renderer;
use crate::sender::Sender;
use crate::store::HookStore;

/// The services that every RPC uses.
#[derive(Clone, Debug)]
pub(crate) struct HookRpc {
    pub(crate) store: HookStore,
    pub(crate) access: Access,
    /// repo-svc.
    pub(crate) repo: Channel,
    pub(crate) relay: Relay,
    /// Addresses that URLs may have.
    pub(crate) policy: Policy,
    /// Most webhooks of one owner.
    pub(crate) owner_limit: i64,
    /// Webhooks of one user within an hour.
    pub(crate) creations: HourlyLimit,
    /// Makes the payloads of tests.
    pub(crate) renderer: Renderer,
    pub(crate) sender: Sender,
    pub(crate) clock: Clock,
}
