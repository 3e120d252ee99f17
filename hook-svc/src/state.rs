//! Shared state of all RPCs: the tables and services, built once at start.
//!
//! Only `rpc` and the wiring in `lib.rs` name it; everything below holds just the services that it uses.

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
use crate::store::kept_bytes::GrownRepositories;

/// The tables and services of this process.
#[derive(Clone)]
pub(crate) struct AppState {
    pub(crate) store: HookTable,
    pub(crate) authorizer: Authorizer,
    pub(crate) relay: Relay,
    /// Addresses that URLs may have.
    pub(crate) policy: Policy,
    /// Most webhooks of one owner.
    pub(crate) owner_limit: i64,
    /// Webhooks of one user within an hour.
    pub(crate) creations: HourlyLimit,
    /// Deliveries that one user asks for within an hour: tests, and those that are sent again.
    pub(crate) deliveries: HourlyLimit,
    /// Makes the payloads of tests.
    pub(crate) renderer: Renderer,
    pub(crate) sender: Sender,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) feed: Feed,
    /// Readers of feeds that wait for an event.
    pub(crate) waiters: FeedWaiters,
    pub(crate) grown: GrownRepositories,
    pub(crate) redactor: Redactor,
    pub(crate) clock: Clock,
}
