//! Measures the events that wait in the outbox.
//!
//! Reads the lanes, of which there is one per subscriber and repository, however many events wait.
//! All replicas of a service measure the same tables.

use std::collections::BTreeMap;
use std::time::Duration;

use ferrite_core::Clock;
use ferrite_core::Lifecycle;
use ferrite_db::args;
use ferrite_db::{Db, DbError};

const INTERVAL: Duration = Duration::from_secs(15);

const WAITING: &str = "SELECT subscriber, CAST(SUM(waiting_count) AS BIGINT) FROM outbox_lanes WHERE waiting_count > 0 GROUP BY subscriber";
/// Only looks at the lanes that are due first.
const OLDEST: &str = "SELECT MIN(o.created_us) FROM outbox o WHERE o.id IN (SELECT (SELECT w.id FROM outbox w \
     WHERE w.subscriber = l.subscriber AND w.repository_id = l.repository_id AND w.delivered_us IS NULL \
     AND w.id > l.delivered_id ORDER BY w.id LIMIT 1) FROM (SELECT subscriber, repository_id, delivered_id FROM outbox_lanes \
     WHERE subscriber = $1 AND waiting_count > 0 ORDER BY due_us LIMIT 1000) l)";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lag {
    pub(super) events: i64,
    /// When the oldest event was written.
    pub(super) oldest_us: Option<i64>,
}

/// Measures the outbox until `life` stops. `subscribers` returns the names to report.
pub(super) async fn run(db: Db, clock: Clock, subscribers: impl Fn() -> Vec<String>, life: Lifecycle) {
    let mut shown: BTreeMap<String, Lag> = BTreeMap::new();
    while !life.is_stopping() {
        match measure(&db).await {
            Ok(measured) => {
                // Subscribers without waiting events are reported as zero.
                shown.values_mut().for_each(|lag| *lag = Lag::default());
                shown.extend(subscribers().into_iter().map(|name| (name, Lag::default())));
                shown.extend(measured);
                show(&shown, clock.now_us());
            }
            Err(error) => tracing::warn!(%error, "cannot measure the outbox"),
        }
        life.pause(INTERVAL).await;
    }
}

/// Returns the waiting events by subscriber.
pub(super) async fn measure(db: &Db) -> Result<BTreeMap<String, Lag>, DbError> {
    let waiting: Vec<(String, i64)> = db.all(WAITING, &[]).await?;
    let mut lags = BTreeMap::new();
    // One query per subscriber with waiting events: there are few.
    for (subscriber, events) in waiting {
        let (oldest_us,): (Option<i64>,) = db.one(OLDEST, &args![subscriber.as_str()]).await?;
        lags.insert(subscriber, Lag { events, oldest_us });
    }
    Ok(lags)
}

fn show(lags: &BTreeMap<String, Lag>, now_us: i64) {
    for (subscriber, lag) in lags {
        let age_us = lag.oldest_us.map_or(0, |oldest_us| (now_us - oldest_us).max(0));
        metrics::gauge!("ferrite_outbox_waiting_events", "subscriber" => subscriber.clone()).set(lag.events as f64);
        metrics::gauge!("ferrite_outbox_oldest_seconds", "subscriber" => subscriber.clone()).set(age_us as f64 / 1e6);
    }
}
