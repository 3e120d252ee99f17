//! Feeds: the events of a repository in their order, for clients that cannot receive webhooks.
//!
//! An event that no hook got has no payload yet: it is made when the event is read for the first time, and stored unless it is long. A long
//! one is made again at each read.
//!
//! Not here: permissions, which the RPCs check.

mod purge;
mod retention;
mod settings;
#[cfg(test)]
mod tests;
mod waiters;

use std::collections::HashMap;
use std::time::Duration;

use ferrite_kit::db::DbError;
use ferrite_kit::{Clock, Lifecycle};
use ferrite_proto::id::RepositoryId;
use tokio::time::Instant;

pub(crate) use retention::Retention;
pub(crate) use settings::FeedArgs;
pub(crate) use waiters::FeedWaiters;

use crate::dispatch::{RenderError, Renderer};
use crate::store::events::{EventStore, MAX_UNSENT_PAYLOAD_BYTES, Source, StoredEvent};

/// Bytes of payloads after which a page ends.
const MAX_PAGE_BYTES: usize = 2 * 1024 * 1024;
/// Events that are read at once.
const READ_EVENTS: i64 = 16;
/// The same where payloads may be long: those beyond the end of the page were made for nothing.
const READ_LONG_EVENTS: i64 = 4;
/// Time between two looks for events without a wake-up: another process may have received them.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The error of a page.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FeedError {
    /// The parts of payloads cannot be looked up now.
    #[error("payloads cannot be made now")]
    PayloadsUnavailable,
    /// The database failed.
    #[error("{}", .0.message())]
    Store(#[from] DbError),
}

/// An event with its payload.
#[derive(Clone, Debug)]
pub(crate) struct FeedItem {
    pub(crate) event: StoredEvent,
    pub(crate) payload: String,
}

/// Feeds of all repositories.
#[derive(Clone, Debug)]
pub(crate) struct Feed {
    store: EventStore,
    renderer: Renderer,
    waiters: FeedWaiters,
    life: Lifecycle,
}

impl Feed {
    /// Creates the feeds of the events of `store`. Readers wait until `life` stops.
    pub(crate) fn new(store: EventStore, renderer: Renderer, waiters: FeedWaiters, life: Lifecycle) -> Self {
        Self { store, renderer, waiters, life }
    }

    /// Starts to take old events out of the feeds, until `life` stops.
    pub(crate) fn start(&self, clock: Clock, settings: FeedArgs) {
        let task = purge::run(self.store.clone(), self.waiters.clone(), clock, settings, self.life.clone());
        self.life.spawn("feed purge", task);
    }

    /// Returns whether the process stops, after which readers do not wait.
    pub(crate) fn is_stopping(&self) -> bool {
        self.life.is_stopping()
    }

    /// Returns at most `limit` events after the cursor, but those of the source `without`. If there are none, waits for one until
    /// `deadline`, or until the process stops.
    ///
    /// # Errors
    /// When payloads cannot be made, or the database fails.
    pub(crate) async fn next_page(
        &self,
        repository: RepositoryId,
        after: i64,
        limit: usize,
        without: Option<Source>,
        deadline: Instant,
    ) -> Result<Vec<FeedItem>, FeedError> {
        loop {
            // From here on no notification is missed.
            let notified = self.waiters.notified(repository);
            tokio::pin!(notified);
            notified.as_mut().enable();
            let page = self.page(repository, after, limit, without).await?;
            if !page.is_empty() || Instant::now() >= deadline || self.is_stopping() {
                return Ok(page);
            }
            let next_look = deadline.min(Instant::now() + POLL_INTERVAL);
            tokio::select! {
                () = notified => {}
                () = self.life.stopping() => {}
                () = tokio::time::sleep_until(next_look) => {}
            }
        }
    }

    /// Returns at most `limit` events after the cursor; fewer where payloads are large, but at least one if there is one.
    async fn page(
        &self,
        repository: RepositoryId,
        after: i64,
        limit: usize,
        without: Option<Source>,
    ) -> Result<Vec<FeedItem>, FeedError> {
        let mut page: Vec<FeedItem> = Vec::new();
        let (mut bytes, mut after) = (0, after);
        while page.len() < limit && bytes < MAX_PAGE_BYTES {
            let are_short = !page.is_empty() && bytes < page.len() * MAX_UNSENT_PAYLOAD_BYTES;
            let count = if are_short { READ_EVENTS } else { READ_LONG_EVENTS };
            let events = self.store.feed_page(repository, after, count, without).await?;
            let is_last = (events.len() as i64) < count;
            let Some(last) = events.last() else { break };
            after = last.id;
            let (items, is_whole) = match self.with_payloads(events).await {
                Ok(found) => found,
                Err(_) if !page.is_empty() => break,
                Err(error) => return Err(error),
            };
            for item in items {
                if page.len() >= limit || bytes >= MAX_PAGE_BYTES {
                    break;
                }
                bytes += item.payload.len();
                page.push(item);
            }
            if !is_whole && page.is_empty() {
                return Err(FeedError::PayloadsUnavailable);
            }
            if is_last || !is_whole {
                break;
            }
        }
        Ok(page)
    }

    /// Makes the payloads that events lack, and stores them. Returns the events before the first one whose payload cannot be made now, and
    /// whether these are all.
    async fn with_payloads(&self, events: Vec<StoredEvent>) -> Result<(Vec<FeedItem>, bool), FeedError> {
        let lacking: Vec<_> = events.iter().filter(|event| event.payload.is_none()).cloned().collect();
        let mut made = HashMap::new();
        if !lacking.is_empty() {
            let rendering = self.renderer.render(&lacking, |_| true).await.map_err(|error| match error {
                RenderError::Store(error) => FeedError::Store(error),
                error => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "the payloads of a feed cannot be made");
                    FeedError::PayloadsUnavailable
                }
            })?;
            made = rendering.payloads;
        }
        let new = made.iter().filter_map(|(id, made)| Some((*id, made.as_ref().ok()?.as_str())));
        let new: Vec<_> = new.filter(|(_, payload)| payload.len() <= MAX_UNSENT_PAYLOAD_BYTES).collect();
        if let Some(event) = events.first() {
            self.store.set_payloads(event.repository, &new).await?;
        }
        let mut items = Vec::with_capacity(events.len());
        for event in events {
            let payload = match (&event.payload, made.remove(&event.id)) {
                (Some(payload), _) => payload.clone(),
                (None, Some(Ok(payload))) => payload,
                // No later attempt makes it.
                (None, Some(Err(error))) => {
                    tracing::error!(%error, event.id, event.name, "an event has no payload and is left out of its feed");
                    continue;
                }
                (None, None) => return Ok((items, false)),
            };
            items.push(FeedItem { event, payload });
        }
        Ok((items, true))
    }
}
