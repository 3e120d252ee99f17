//! Feeds show the events of a repository in order, for clients that cannot receive webhooks.
//!
//! An event that no hook received has no payload yet. It is rendered at the first read and stored,
//! or at every read if it is long.
//!
//! Permissions are checked when a page is sent ([`FeedReader`]), so it contains only what its
//! reader may see at that moment.

mod purge;
mod reader;
mod retention;
#[cfg(test)]
mod tests;
mod waiters;

use std::collections::HashMap;
use std::time::Duration;

use clap::Args;
use ferrite_core::config::within;
use ferrite_core::{Clock, Lifecycle};
use ferrite_db::DbError;
use ferrite_rpc::auth::{AuthError, Authorizer};
use tokio::time::Instant;

pub(crate) use reader::FeedReader;
pub(crate) use retention::Retention;
pub(crate) use waiters::FeedWaiters;

use crate::dispatch::{RenderError, Renderer};
use crate::store::events::{EventTable, MAX_UNSENT_PAYLOAD_BYTES, MadePayload, StoredEvent};

/// Payload bytes after which a page ends.
const MAX_PAGE_BYTES: usize = 2 * 1024 * 1024;
/// Events per query.
const READ_EVENTS: i64 = 16;
/// Events per query if payloads may be long. Rendering those past the end of the page is wasted
/// work.
const READ_LONG_EVENTS: i64 = 4;
/// Maximum number of events of a page.
pub(crate) const MAX_PAGE_EVENTS: usize = 100;
/// A call ends after this many pages of which the reader may see nothing.
const MAX_HIDDEN_PAGES: usize = 10;
/// Polling picks up events that another process received.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Bounds of what is kept of events.
#[derive(Args, Clone, Debug)]
pub struct FeedArgs {
    /// Retention of events, in days.
    #[arg(long, env = "FERRITE_HOOK_FEED_DAYS", default_value_t = 7, value_parser = within::<u32>(1..=365))]
    pub feed_days: u32,

    /// Events to keep per repository.
    #[arg(long, env = "FERRITE_HOOK_FEED_EVENTS", default_value_t = 10_000, value_parser = within::<i64>(1..=1_000_000))]
    pub feed_events: i64,

    /// Size of events and their deliveries to keep per repository, in bytes.
    #[arg(long, env = "FERRITE_HOOK_FEED_BYTES", default_value_t = 67_108_864, value_parser = within::<i64>(65_536..))]
    pub feed_bytes: i64,

    /// Size of events and their deliveries to keep per account, in bytes.
    #[arg(long, env = "FERRITE_HOOK_OWNER_BYTES", default_value_t = 1_073_741_824, value_parser = within::<i64>(65_536..))]
    pub owner_bytes: i64,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum FeedError {
    #[error("payloads are temporarily unavailable")]
    PayloadsUnavailable,
    /// The reader may no longer read the feed, or the check failed.
    #[error(transparent)]
    Access(#[from] AuthError),
    #[error("{}", .0.message())]
    Store(#[from] DbError),
}

#[derive(Clone, Debug)]
pub(crate) struct FeedItem {
    pub(crate) event: StoredEvent,
    pub(crate) payload: String,
}

/// Events that a reader may see, oldest first.
#[derive(Clone, Debug)]
pub(crate) struct FeedPage {
    pub(crate) items: Vec<FeedItem>,
    /// The cursor in the response: that of the last event, or of the request if there is none. It
    /// skips hidden events only by whole pages, so it does not reveal a single one.
    pub(crate) cursor: i64,
    /// Where to continue, after all examined events.
    pub(crate) looked_at: i64,
}

/// Events with their payloads, before the permission check.
struct ReadPage {
    items: Vec<FeedItem>,
    /// All events up to this id have been read.
    end: i64,
    /// Whether the page has reached its limit of events or bytes.
    is_full: bool,
}

#[derive(Clone)]
pub(crate) struct Feed {
    store: EventTable,
    renderer: Renderer,
    authorizer: Authorizer,
    waiters: FeedWaiters,
    life: Lifecycle,
}

impl Feed {
    /// Creates the feeds. Readers wait for events until `life` stops.
    pub(crate) fn new(
        store: EventTable,
        renderer: Renderer,
        authorizer: Authorizer,
        waiters: FeedWaiters,
        life: Lifecycle,
    ) -> Self {
        Self { store, renderer, authorizer, waiters, life }
    }

    /// Starts removing old events from the feeds.
    pub(crate) fn start(&self, clock: Clock, settings: FeedArgs) {
        let task = purge::run(self.store.clone(), self.waiters.clone(), clock, settings, self.life.clone());
        self.life.spawn("feed purge", task);
    }

    /// Returns whether the process is stopping. Readers no longer wait then.
    pub(crate) fn is_stopping(&self) -> bool {
        self.life.is_stopping()
    }

    /// Returns at most `limit` events after the cursor that the reader may see. If there are none,
    /// waits for one until `deadline` or until the process stops.
    pub(crate) async fn next_page(
        &self,
        reader: &mut FeedReader,
        after: i64,
        limit: usize,
        deadline: Instant,
    ) -> Result<FeedPage, FeedError> {
        let (mut cursor, mut looked_at) = (after, after);
        loop {
            // Subscribe before reading, so that no notification is missed.
            let notified = self.waiters.notified(reader.repository());
            tokio::pin!(notified);
            notified.as_mut().enable();
            for hidden_pages in 0..=MAX_HIDDEN_PAGES {
                if hidden_pages == MAX_HIDDEN_PAGES {
                    return Ok(FeedPage { items: Vec::new(), cursor: looked_at, looked_at });
                }
                let size = if hidden_pages == 0 { limit } else { MAX_PAGE_EVENTS };
                let page = self.page(reader, looked_at, size).await?;
                looked_at = page.end;
                if page.items.is_empty() {
                    break;
                }
                let mut items = reader.readable(&self.authorizer, page.items).await?;
                items.truncate(limit);
                if let Some(last) = items.last() {
                    let cursor = last.event.id;
                    return Ok(FeedPage { items, cursor, looked_at: cursor });
                }
                if page.is_full {
                    cursor = looked_at;
                }
            }
            if Instant::now() >= deadline || self.is_stopping() {
                return Ok(FeedPage { items: Vec::new(), cursor, looked_at });
            }
            let next_look = deadline.min(Instant::now() + POLL_INTERVAL);
            tokio::select! {
                () = notified => {}
                () = self.life.stopping() => {}
                () = tokio::time::sleep_until(next_look) => {}
            }
        }
    }

    /// Filters events that were read earlier down to those the reader may still see.
    pub(crate) async fn recheck(
        &self,
        reader: &mut FeedReader,
        items: Vec<FeedItem>,
    ) -> Result<Vec<FeedItem>, FeedError> {
        reader.readable(&self.authorizer, items).await
    }

    /// Reads at most `limit` events after the cursor. Returns fewer if payloads are large, but at
    /// least one if there is any.
    async fn page(&self, reader: &FeedReader, after: i64, limit: usize) -> Result<ReadPage, FeedError> {
        let newest = match reader.hidden {
            // Read before the events, so that none added in between is skipped.
            Some(_) => self.store.newest(reader.repository()).await?,
            None => after,
        };
        let mut page: Vec<FeedItem> = Vec::new();
        let (mut bytes, mut end, mut after) = (0, after, after);
        while page.len() < limit && bytes < MAX_PAGE_BYTES {
            let are_short = !page.is_empty() && bytes < page.len() * MAX_UNSENT_PAYLOAD_BYTES;
            let count = if are_short { READ_EVENTS } else { READ_LONG_EVENTS };
            let events = self.store.feed_page(reader.repository(), after, count, reader.hidden).await?;
            let is_last = (events.len() as i64) < count;
            let Some(last) = events.last() else { break };
            after = last.id;
            let (items, is_whole) = match self.with_payloads(events).await {
                Ok(found) => found,
                Err(_) if !page.is_empty() => break,
                Err(error) => return Err(error),
            };
            let mut is_cut = !is_whole;
            for item in items {
                if page.len() >= limit || bytes >= MAX_PAGE_BYTES {
                    is_cut = true;
                    break;
                }
                bytes += item.payload.len();
                end = item.event.id;
                page.push(item);
            }
            if !is_whole && page.is_empty() {
                return Err(FeedError::PayloadsUnavailable);
            }
            if is_cut {
                break;
            }
            // Continue behind events that were omitted because their payload failed.
            end = after;
            if is_last {
                break;
            }
        }
        if page.is_empty() {
            end = end.max(newest);
        }
        let is_full = page.len() >= MAX_PAGE_EVENTS || bytes >= MAX_PAGE_BYTES;
        Ok(ReadPage { items: page, end, is_full })
    }

    /// Renders and stores missing payloads. Returns the events before the first one whose payload
    /// is temporarily unavailable, and whether these are all.
    async fn with_payloads(&self, events: Vec<StoredEvent>) -> Result<(Vec<FeedItem>, bool), FeedError> {
        let lacking: Vec<_> = events.iter().filter(|event| event.payload.is_none()).cloned().collect();
        let mut made = HashMap::new();
        if !lacking.is_empty() {
            let rendering = self.renderer.render(&lacking, |_| true).await.map_err(|error| match error {
                RenderError::Store(error) => FeedError::Store(error),
                error => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "cannot render the payloads of a feed");
                    FeedError::PayloadsUnavailable
                }
            })?;
            made = rendering.payloads;
        }
        let new = |event: &StoredEvent| {
            let payload = made.get(&event.id)?.as_ref().ok()?.as_str();
            let new = MadePayload { event_id: event.id, revision: event.revision, payload };
            (payload.len() <= MAX_UNSENT_PAYLOAD_BYTES).then_some(new)
        };
        let new: Vec<_> = lacking.iter().filter_map(new).collect();
        if let Some(event) = events.first() {
            self.store.set_payloads(event.repository, &new).await?;
        }
        let mut items = Vec::with_capacity(events.len());
        for event in events {
            let payload = match (&event.payload, made.remove(&event.id)) {
                (Some(payload), _) => payload.clone(),
                (None, Some(Ok(payload))) => payload,
                // A permanent failure.
                (None, Some(Err(error))) => {
                    tracing::error!(%error, event.id, event.name, "cannot render an event; its feed omits it");
                    continue;
                }
                (None, None) => return Ok((items, false)),
            };
            items.push(FeedItem { event, payload });
        }
        Ok((items, true))
    }
}
