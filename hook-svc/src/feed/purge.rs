//! A background task that removes old events from feeds.

use std::time::Duration;

use ferrite_core::{Clock, Lifecycle, micros};
use ferrite_db::DbError;

use super::FeedArgs;
use super::waiters::FeedWaiters;
use crate::store::events::EventTable;

const INTERVAL: Duration = Duration::from_secs(60);
/// Lets writers go first.
const BATCH_PAUSE: Duration = Duration::from_millis(50);
const DAY: Duration = Duration::from_secs(24 * 3600);

pub(super) async fn run(store: EventTable, waiters: FeedWaiters, clock: Clock, settings: FeedArgs, life: Lifecycle) {
    while life.pause(INTERVAL).await {
        let round = purge(&store, &waiters, &clock, &settings);
        tokio::select! {
            () = life.stopping() => return,
            result = round => {
                if let Err(error) = result {
                    tracing::warn!(%error, "cannot remove old events from feeds; will retry");
                }
            }
        }
    }
}

pub(super) async fn purge(
    store: &EventTable,
    waiters: &FeedWaiters,
    clock: &Clock,
    settings: &FeedArgs,
) -> Result<(), DbError> {
    let before_us = clock.now_us().saturating_sub(micros(DAY * settings.feed_days));
    while store.leave_feed_before(before_us).await? {
        tokio::time::sleep(BATCH_PAUSE).await;
    }
    for repository in waiters.take_grown() {
        while store.leave_feed_beyond(repository, settings.feed_events).await? {
            tokio::time::sleep(BATCH_PAUSE).await;
        }
    }
    Ok(())
}
