//! Deletes delivered rows of the outbox and old rows of the inbox, in small batches.

use std::time::Duration;

use ferrite_core::Lifecycle;
use ferrite_core::{Clock, micros};
use ferrite_db::args;
use ferrite_db::{Db, DbError};

/// Rows per transaction, so that no writer waits long.
const MAX_BATCH_ROWS: i64 = 200;
/// Pause between two batches, in which others can write.
const BATCH_PAUSE: Duration = Duration::from_millis(20);
const PURGE_INTERVAL: Duration = Duration::from_secs(60);

/// Skips locked rows, because other replicas purge at the same time.
const PURGE_OUTBOX_POSTGRES: &str = "DELETE FROM outbox WHERE id IN (SELECT id FROM outbox WHERE delivered_us < $1 \
     ORDER BY delivered_us LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING delivered_us";
const PURGE_OUTBOX_SQLITE: &str = "DELETE FROM outbox WHERE id IN (SELECT id FROM outbox WHERE delivered_us < $1 \
     ORDER BY delivered_us LIMIT $2) RETURNING delivered_us";
const PURGE_INBOX_POSTGRES: &str = "DELETE FROM inbox WHERE event_id IN (SELECT event_id FROM inbox WHERE received_us < $1 \
     ORDER BY received_us LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING received_us";
const PURGE_INBOX_SQLITE: &str = "DELETE FROM inbox WHERE event_id IN (SELECT event_id FROM inbox WHERE received_us < $1 \
     ORDER BY received_us LIMIT $2) RETURNING received_us";

/// Deletes rows that are older than `retention` until `life` stops. After a restart, senders
/// deliver again what they had not marked: rows of the inbox must be kept long enough for that.
pub(super) async fn run(db: Db, clock: Clock, retention: Duration, life: Lifecycle) {
    let mut pause = PURGE_INTERVAL.min(retention);
    while life.pause(pause).await {
        pause = match batch(&db, clock.now_us() - micros(retention)).await {
            Ok(0) => PURGE_INTERVAL.min(retention),
            Ok(_) => BATCH_PAUSE,
            Err(error) => {
                tracing::warn!(%error, "outbox purge failed");
                PURGE_INTERVAL
            }
        };
    }
}

/// Deletes rows of both tables that were delivered or received before `before_us`, at most
/// [`MAX_BATCH_ROWS`] of each. Returns their number.
pub(super) async fn batch(db: &Db, before_us: i64) -> Result<usize, DbError> {
    let args = args![before_us, MAX_BATCH_ROWS];
    let mut count = 0;
    for sql in db.pick([PURGE_OUTBOX_POSTGRES, PURGE_INBOX_POSTGRES], [PURGE_OUTBOX_SQLITE, PURGE_INBOX_SQLITE]) {
        let deleted: Vec<(i64,)> = db.all_relaxed(&[(sql, args.len())], &args).await?;
        count += deleted.len();
    }
    Ok(count)
}
