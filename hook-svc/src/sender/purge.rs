//! Deletes old deliveries, those of deleted hooks, and events that neither a delivery nor a feed
//! needs.
//!
//! Works in small batches to keep writers from waiting. Unfinished deliveries stay.

use std::time::Duration;

use ferrite_core::{Clock, Lifecycle, micros};
use ferrite_db::{Db, DbError};

use super::DeliveryArgs;
use crate::store::purge;

const ROUND_INTERVAL: Duration = Duration::from_secs(60);
/// Lets writers go first.
const BATCH_PAUSE: Duration = Duration::from_millis(20);
const DAY: Duration = Duration::from_secs(24 * 3600);

pub(super) async fn run(db: Db, clock: Clock, settings: DeliveryArgs, life: Lifecycle) {
    while !life.is_stopping() {
        if let Err(error) = round(&db, &clock, &settings, &life).await {
            tracing::warn!(%error, "cannot delete old deliveries");
        }
        life.pause(ROUND_INTERVAL).await;
    }
}

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
