//! Measures of the queues of deliveries. Attempts are counted where they are made.

use std::time::Duration;

use ferrite_core::{Clock, Lifecycle};
use ferrite_db::Db;

use crate::store::deliveries;

const INTERVAL: Duration = Duration::from_secs(15);

/// Measures the queues until `life` stops.
pub(super) async fn run(db: Db, clock: Clock, life: Lifecycle) {
    while !life.is_stopping() {
        let now_us = clock.now_us();
        match deliveries::queue_totals(&db, now_us).await {
            Ok(totals) => {
                let seconds =
                    |since_us: Option<i64>| since_us.map_or(0, |since_us| (now_us - since_us).max(0)) as f64 / 1e6;
                metrics::gauge!("ferrite_hook_queue_length").set(totals.length as f64);
                metrics::gauge!("ferrite_hook_queue_oldest_seconds").set(seconds(totals.oldest_us));
                metrics::gauge!("ferrite_hook_deliveries_due").set(totals.due_queues as f64);
                metrics::gauge!("ferrite_hook_due_seconds").set(seconds(totals.due_since_us));
            }
            Err(error) => tracing::warn!(%error, "the queues of deliveries could not be measured"),
        }
        life.pause(INTERVAL).await;
    }
}
