//! The deletion of old deliveries, those of deleted hooks, and of events that neither a delivery nor the feed needs.
//!
//! In small batches, so that no writer waits long. Unfinished deliveries stay.

use std::time::Duration;

use ferrite_core::{Clock, Lifecycle, micros};
use ferrite_db::{Db, DbError};

use super::DeliveryArgs;
use crate::store::purge;

/// Time between two rounds over all hooks.
const ROUND_INTERVAL: Duration = Duration::from_secs(60);
/// Time between two batches, for the writers.
const BATCH_PAUSE: Duration = Duration::from_millis(20);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Deletes old rows until `life` stops.
pub(super) async fn run(db: Db, clock: Clock, settings: DeliveryArgs, life: Lifecycle) {
    while !life.is_stopping() {
        if let Err(error) = round(&db, &clock, &settings, &life).await {
            tracing::warn!(%error, "cannot delete old deliveries");
        }
        life.pause(ROUND_INTERVAL).await;
    }
}

/// Deletes what is old of every hook, and then events.
async fn round(db: &Db, clock: &Clock, settings: &DeliveryArgs, life: &Lifecycle) -> Result<(), DbError> {
    let before_us = clock.now_us() - micros(DAY * settings.hook_delivery_days);
    let count = i64::from(settings.hook_delivery_count);
    let mut after = 0;
    loop {
        let hooks = purge::hooks_with_deliveries(db, after).await?;
        let Some(last) = hooks.last() else { break };
        after = last.id;
        for hook in hooks {
            while purge::deliveries(db, &hook, before_us, count).await? && !life.is_stopping() {
                tokio::time::sleep(BATCH_PAUSE).await;
            }
        }
        if life.is_stopping() {
            return Ok(());
        }
        tokio::time::sleep(BATCH_PAUSE).await;
    }
    while purge::events(db, before_us).await? && !life.is_stopping() {
        tokio::time::sleep(BATCH_PAUSE).await;
    }
    Ok(())
}
