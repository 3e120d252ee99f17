//! Removes the oldest events of a repository that takes too much space, together with their
//! deliveries. The user whose events take most loses them, so nobody can push out the events of
//! others.
//!
//! Events with waiting deliveries go last. Then their oldest deliveries are cancelled, unless their
//! queue is being sent: a paused webhook must not fill the disk.

use std::collections::{BTreeMap, BTreeSet};

use ferrite_db::args;
use ferrite_db::{Db, DbError, Query, Tx};
use ferrite_proto::id::{HookId, RepositoryId, UserId};
use sqlx_macros::FromRow;

use super::kept_bytes;
use super::queues::QueueKey;
use super::removal::{self, MAX_BATCH_ROWS};

/// Ends a batch. SQLite visits each page that it frees.
const MAX_BATCH_BYTES: i64 = 4 * 1024 * 1024;

/// The user whose events, with their deliveries, take most.
const LARGEST_USER: &str = "SELECT e.user_id FROM events e WHERE e.repository_id = $1 GROUP BY e.user_id \
     ORDER BY SUM(e.bytes + COALESCE((SELECT SUM(d.bytes) FROM deliveries d WHERE d.event_id = e.id), 0)) DESC, e.user_id LIMIT 1";
/// The oldest events without a waiting delivery, and the bytes that removing each would free.
const OLDEST: &str = "SELECT e.id, e.bytes + CAST(COALESCE((SELECT SUM(d.bytes) FROM deliveries d WHERE d.event_id = e.id), 0) AS BIGINT) \
     AS bytes FROM events e WHERE e.is_dispatched \
     AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.event_id = e.id AND d.status < 2) AND e.repository_id = ";
const DELETE_DELIVERIES: &str = "DELETE FROM deliveries WHERE status >= 2 AND event_id IN ";
const LEAVE_FEED: &str = "UPDATE events SET is_in_feed = FALSE WHERE id IN ";
/// Keeps an event in the feed if one of its deliveries was queued again since.
const IS_UNUSED: &str = " AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.event_id = events.id)";
const WAITING: &str = "SELECT d.id, d.hook_id, d.repository_id, d.source, d.lane_delivery_id, e.id AS event_id, e.bytes FROM events e \
     JOIN deliveries d ON d.event_id = e.id WHERE d.status < 2 AND e.repository_id = ";
const OF_USER: &str = " AND e.user_id = ";
const LOCK_QUEUES: &str = "SELECT hook_id, repository_id, source, delivery_id AS lane_delivery_id FROM lanes \
     WHERE claimed_until_us <= ";
const OF_QUEUES: &str = " AND (hook_id, repository_id, source, delivery_id) IN (VALUES ";
const LOCK_QUEUES_END_POSTGRES: &str = ") ORDER BY hook_id, repository_id, source, delivery_id FOR UPDATE";
const CANCEL: &str = "UPDATE deliveries SET status = 4, next_attempt_us = NULL, finished_us = ";
const CANCEL_QUEUES: &str = " WHERE status < 2 AND (hook_id, repository_id, source, lane_delivery_id) IN (VALUES ";
const CANCEL_IDS: &str = ") AND id IN ";
const CANCELLED: &str = " RETURNING hook_id, repository_id, source, lane_delivery_id";
const TAKE_OUT: &str = "UPDATE lanes SET waiting = waiting - $5 \
     WHERE hook_id = $1 AND repository_id = $2 AND source = $3 AND delivery_id = $4 RETURNING waiting";
const DELETE_EMPTY: &str = "DELETE FROM lanes \
     WHERE hook_id = $1 AND repository_id = $2 AND source = $3 AND delivery_id = $4 AND waiting <= 0";

#[derive(FromRow)]
struct QueueRow {
    hook_id: i64,
    repository_id: i64,
    source: i64,
    lane_delivery_id: i64,
}

#[derive(FromRow)]
struct WaitingRow {
    id: i64,
    #[sqlx(flatten)]
    queue: QueueRow,
    event_id: i64,
    /// Size of the event.
    bytes: i64,
}

impl QueueRow {
    fn key(&self) -> QueueKey {
        QueueKey {
            hook: HookId(self.hook_id),
            repository: RepositoryId(self.repository_id),
            source: self.source,
            delivery_id: self.lane_delivery_id,
        }
    }
}

/// Returns the user whose events in a repository, with their deliveries, take most.
pub(crate) async fn largest_user(db: &Db, repository: RepositoryId) -> Result<Option<UserId>, DbError> {
    let row: Option<(i64,)> = db.optional(LARGEST_USER, &args![repository]).await?;
    Ok(row.map(|(user,)| UserId(user)))
}

/// Removes a batch of the oldest events of a repository, or of one of its users, of about `bytes`
/// at most. Returns the bytes removed, or zero if nothing can be removed now.
pub(crate) async fn evict(db: &Db, repository: RepositoryId, user: Option<UserId>, bytes: i64) -> Result<i64, DbError> {
    let mut query = Query::new(OLDEST);
    bind_events(&mut query, repository, user).push(" ORDER BY e.id LIMIT ").bind(MAX_BATCH_ROWS);
    let rows: Vec<(i64, i64)> = db.all(query.sql(), query.args()).await?;
    let mut events = Vec::new();
    let mut found = 0;
    for (id, bytes_of_event) in rows {
        if found >= bytes.min(MAX_BATCH_BYTES) {
            break;
        }
        found += bytes_of_event;
        events.push(id);
    }
    if events.is_empty() {
        return Ok(0);
    }
    let mut tx = db.begin_relaxed().await?;
    kept_bytes::lock(&mut tx, &BTreeSet::from([repository.0])).await?;
    let mut query = Query::new(DELETE_DELIVERIES);
    query.bind_list(events.iter().copied()).push(" RETURNING bytes");
    let deliveries: Vec<(i64,)> = tx.all(query.sql(), query.args()).await?;
    let mut query = Query::new(LEAVE_FEED);
    query.bind_list(events.iter().copied()).push(IS_UNUSED);
    tx.execute(query.sql(), query.args()).await?;
    let mut removed = removal::delete_events(&mut tx, events).await?;
    *removed.entry(repository.0).or_default() += deliveries.iter().map(|(bytes,)| bytes).sum::<i64>();
    kept_bytes::subtract(&mut tx, &removed).await?;
    tx.commit().await?;
    // Events of older versions count as zero bytes, but removing them is progress.
    Ok(removed.values().sum::<i64>().max(1))
}

fn bind_events(query: &mut Query, repository: RepositoryId, user: Option<UserId>) -> &mut Query {
    query.bind(repository);
    if let Some(user) = user {
        query.push(OF_USER).bind(user);
    }
    query
}

/// Cancels a batch of the deliveries that keep the oldest events of a repository, or of one of its
/// users. The events take about `bytes` at most. Returns the number cancelled, or zero if none can
/// be cancelled now.
pub(crate) async fn cancel_waiting(
    db: &Db,
    repository: RepositoryId,
    user: Option<UserId>,
    bytes: i64,
    now_us: i64,
) -> Result<u64, DbError> {
    let mut query = Query::new(WAITING);
    bind_events(&mut query, repository, user).push(" ORDER BY e.id, d.id LIMIT ").bind(MAX_BATCH_ROWS);
    let mut rows: Vec<WaitingRow> = db.all(query.sql(), query.args()).await?;
    let (mut event_id, mut found) = (0, 0);
    let mut is_needed = |row: &WaitingRow| {
        if row.event_id != event_id {
            if found >= bytes {
                return false;
            }
            event_id = row.event_id;
            found += row.bytes;
        }
        true
    };
    let count = rows.iter().map_while(|row| is_needed(row).then_some(())).count();
    rows.truncate(count);
    let keys: BTreeSet<QueueKey> = rows.iter().map(|row| row.queue.key()).collect();
    if keys.is_empty() {
        return Ok(0);
    }
    let mut tx = db.begin_relaxed().await?;
    let locked = lock_unclaimed(&mut tx, &keys, now_us).await?;
    if locked.is_empty() {
        tx.rollback().await?;
        return Ok(0);
    }
    let mut query = Query::new(CANCEL);
    query.bind(now_us).push(CANCEL_QUEUES).bind_rows(locked.iter().map(|queue| queue.columns()));
    query.push(CANCEL_IDS).bind_list(rows.iter().map(|row| row.id)).push(CANCELLED);
    let cancelled: Vec<QueueRow> = tx.all(query.sql(), query.args()).await?;
    let mut counts: BTreeMap<QueueKey, i64> = BTreeMap::new();
    for row in &cancelled {
        *counts.entry(row.key()).or_default() += 1;
    }
    for (queue, count) in counts {
        let key = queue.columns();
        let left: Option<(i64,)> = tx.optional(TAKE_OUT, &[key.as_slice(), &args![count]].concat()).await?;
        if left.is_some_and(|(waiting,)| waiting <= 0) {
            tx.execute(DELETE_EMPTY, &key).await?;
        }
    }
    tx.commit().await?;
    Ok(cancelled.len() as u64)
}

/// Locks the queues that no process is sending.
async fn lock_unclaimed(tx: &mut Tx, keys: &BTreeSet<QueueKey>, now_us: i64) -> Result<BTreeSet<QueueKey>, DbError> {
    let mut query = Query::new(LOCK_QUEUES);
    query.bind(now_us).push(OF_QUEUES).bind_rows(keys.iter().map(|queue| queue.columns()));
    query.push(tx.pick(LOCK_QUEUES_END_POSTGRES, ")"));
    let rows: Vec<QueueRow> = tx.all(query.sql(), query.args()).await?;
    Ok(rows.iter().map(QueueRow::key).collect())
}
