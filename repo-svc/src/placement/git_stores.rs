use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ferrite_core::Clock;
use ferrite_db::DbError;
use ferrite_events::Relay;
use ferrite_proto::git::GetStoreStatusRequest;
use ferrite_proto::git::storage_service_client::StorageServiceClient;
use ferrite_rpc::grpc::{StoreChannel, with_timeout};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::StoreStatus;
use super::choice::choose;
use crate::error::RepoError;
use crate::store::{FORMER_SUBSCRIBER, GitStoreTable, store_subscriber};

/// Deadlines of a status request. The second applies while no store is known to respond, so that
/// one that hangs does not delay the others.
const STATUS_TIMEOUT: Duration = Duration::from_secs(3);
const FIRST_STATUS_TIMEOUT: Duration = Duration::from_secs(1);

/// Failed status requests in a row before a warning: when everything starts at once, the first may
/// come too early.
const MISSED_BEFORE_WARNING: u32 = 3;

/// Which git stores responded to their last status request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reachable {
    /// None responded, or none was asked yet.
    None,
    Some,
    All,
}

/// The git stores as this process sees them. Clones share the state.
#[derive(Clone, Debug)]
pub(crate) struct GitStores(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    table: GitStoreTable,
    channel: StoreChannel,
    relay: Relay,
    clock: Clock,
    /// A store needs more free bytes than this to get a new repository.
    reserve_bytes: u64,
    statuses: Mutex<HashMap<String, StoreStatus>>,
    /// Wakes the poller.
    changed: Notify,
}

impl GitStores {
    pub(crate) fn new(
        table: GitStoreTable,
        channel: StoreChannel,
        relay: Relay,
        reserve_bytes: u64,
        clock: Clock,
    ) -> Self {
        let (statuses, changed) = (Mutex::default(), Notify::new());
        Self(Arc::new(Inner { table, channel, relay, clock, reserve_bytes, statuses, changed }))
    }

    pub(crate) fn table(&self) -> &GitStoreTable {
        &self.0.table
    }

    /// Returns the name of a store for a new repository.
    pub(crate) async fn place(&self) -> Result<String, RepoError> {
        let open = self.0.table.open_stores().await?;
        choose(&open, &self.0.statuses.lock(), self.0.reserve_bytes, &mut rand::rng())
    }

    /// Returns the outbox subscriber of a store, and starts to deliver its events in this process.
    pub(crate) fn subscriber(&self, store: &str) -> String {
        let subscriber = store_subscriber(store);
        self.deliver_to(&subscriber, store);
        subscriber
    }

    fn deliver_to(&self, subscriber: &str, store: &str) {
        self.0.relay.add(subscriber, self.0.channel.with_store(store));
    }

    /// `None` if the store was not asked yet.
    pub(crate) fn status(&self, store: &str) -> Option<StoreStatus> {
        self.0.statuses.lock().get(store).copied()
    }

    /// Records that a store did not respond, so that new repositories go to others until it does.
    pub(crate) fn note_unreachable(&self, store: &str) {
        if let Some(status) = self.0.statuses.lock().get_mut(store) {
            *status = status.unreachable();
        }
        self.0.changed.notify_one();
    }

    /// Wakes the poller early, because a store was added or does not respond.
    pub(crate) fn ask_soon(&self) {
        self.0.changed.notify_one();
    }

    pub(crate) async fn until_changed(&self) {
        self.0.changed.notified().await;
    }

    pub(crate) fn reachable(&self) -> Reachable {
        let statuses = self.0.statuses.lock();
        match statuses.values().filter(|status| status.is_reachable).count() {
            0 => Reachable::None,
            count if count == statuses.len() => Reachable::All,
            _ => Reachable::Some,
        }
    }

    /// Reads the names of all stores, oldest first. Delivers events to new stores and forgets
    /// removed ones.
    pub(crate) async fn refresh(&self) -> Result<Vec<String>, DbError> {
        let names = self.0.table.names().await?;
        for name in &names {
            self.subscriber(name);
        }
        if let Some(first) = names.first()
            && self.0.table.has_former_events().await?
        {
            self.deliver_to(FORMER_SUBSCRIBER, first);
        }
        let mut statuses = self.0.statuses.lock();
        let gone: Vec<String> = statuses.keys().filter(|name| !names.contains(name)).cloned().collect();
        for name in gone {
            statuses.remove(&name);
            self.0.relay.remove(&store_subscriber(&name));
        }
        Ok(names)
    }

    /// Requests the status of a store and keeps it.
    pub(crate) async fn ask(&self, store: &str) {
        let response = self.get_status(store).await;
        let before = self.status(store).unwrap_or_default();
        let status = match response {
            Ok(status) => {
                if before.missed >= MISSED_BEFORE_WARNING {
                    tracing::info!("git store `{store}` is reachable again");
                }
                status
            }
            Err(reason) => {
                let status = before.unreachable();
                if status.missed == MISSED_BEFORE_WARNING {
                    tracing::warn!("git store `{store}` is unreachable: {reason}");
                }
                status
            }
        };
        self.0.statuses.lock().insert(store.to_owned(), status);
    }

    /// Fails with the reason, as text for the log.
    async fn get_status(&self, store: &str) -> Result<StoreStatus, String> {
        let is_any_known = self.reachable() != Reachable::None;
        let timeout = if is_any_known { STATUS_TIMEOUT } else { FIRST_STATUS_TIMEOUT };
        let request = with_timeout(GetStoreStatusRequest {}, timeout);
        let mut client = StorageServiceClient::new(self.0.channel.with_store(store));
        let response = client.get_store_status(request).await.map_err(|status| status.message().to_owned())?;
        let response = response.into_inner();
        if response.name != store {
            return Err(format!("its address belongs to the store `{}`", response.name.escape_debug()));
        }
        metrics::gauge!("ferrite_store_repositories", "store" => response.name)
            .set(as_gauge(response.repository_count));
        Ok(StoreStatus {
            is_reachable: true,
            missed: 0,
            is_writable: response.is_writable,
            free_bytes: u64::try_from(response.free_bytes).unwrap_or(0),
            total_bytes: u64::try_from(response.total_bytes).unwrap_or(0),
            seen_us: self.0.clock.now_us(),
        })
    }

    /// Sets the metrics of all stores.
    pub(crate) fn report(&self) {
        let statuses = self.0.statuses.lock().clone();
        for (name, status) in &statuses {
            let free = i64::try_from(status.free_bytes).unwrap_or(i64::MAX);
            metrics::gauge!("ferrite_store_free_bytes", "store" => name.clone()).set(as_gauge(free));
            let total = i64::try_from(status.total_bytes).unwrap_or(i64::MAX);
            metrics::gauge!("ferrite_store_bytes", "store" => name.clone()).set(as_gauge(total));
            let reachable = f64::from(u8::from(status.is_reachable));
            metrics::gauge!("ferrite_store_reachable", "store" => name.clone()).set(reachable);
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a metric is a float")]
fn as_gauge(value: i64) -> f64 {
    value as f64
}
