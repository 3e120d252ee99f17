//! Shared state of all RPCs, built once at start.
//!
//! Only `rpc` and the wiring in `lib.rs` use it. Everything below holds just the services it needs.

use ferrite_core::Clock;
use ferrite_events::Relay;
use ferrite_outbound::Policy;
use ferrite_rpc::auth::Authorizer;
use ferrite_rpc::rate_limit::HourlyLimit;

use crate::dispatch::{Dispatcher, Renderer};
use crate::feed::{Feed, FeedWaiters};
use crate::redaction::Redactor;
use crate::sender::Sender;
use crate::store::HookTable;
use crate::store::events::EventTable;
use crate::store::kept_bytes::GrownRepositories;

#[derive(Clone)]
pub(crate) struct AppState {
    pub(crate) store: HookTable,
    pub(crate) authorizer: Authorizer,
    pub(crate) relay: Relay,
    /// Addresses that webhook URLs may have.
    pub(crate) policy: Policy,
    /// Webhooks per owner.
    pub(crate) owner_limit: i64,
    /// Webhooks created per user.
    pub(crate) creations: HourlyLimit,
    /// Tests and redeliveries per user.
    pub(crate) deliveries: HourlyLimit,
    /// Renders the payloads of tests.
    pub(crate) renderer: Renderer,
    pub(crate) sender: Sender,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) feed: Feed,
    /// Where activities are read.
    pub(crate) activities: EventTable,
    /// Wakes readers of feeds when an event arrives.
    pub(crate) waiters: FeedWaiters,
    pub(crate) grown: GrownRepositories,
    pub(crate) redactor: Redactor,
    pub(crate) clock: Clock,
}
