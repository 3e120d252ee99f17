//! Measures of the queue of deliveries. Attempts are counted where they are made.

use std::time::Duration;

use ferrite_kit::db::Db;
use ferrite_kit::{Clock, Lifecycle};

use crate::store::deliveries;

const INTERVAL: Duration = Duration::from_secs(15);

/// Measures the queue until `life` stops.
pub(super) async fn run(db: Db, clock: Clock, life: Lifecycle) {
    while !life.is_stopping() {
        match deliveries::queue(&db).await {
            Ok(queue) => {
                let age_us = queue.oldest_us.map_or(0, |oldest_us| (clock.now_us() - oldest_us).max(0));
                metrics::gauge!("ferrite_hook_queue_length").set(queue.length as f64);
                metrics::gauge!("ferrite_hook_queue_oldest_seconds").set(age_us as f64 / 1e6);
            }
            Err(error) => tracing::warn!(%error, "the queue of deliveries could not be measured"),
        }
        tokio::select! {
            () = life.stopping() => {}
            () = tokio::time::sleep(INTERVAL) => {}
        }
    }
}
