//! Queues keep deliveries in order. Each hook has one queue per repository and source of events.
//! Deliveries that stepped aside, tests and redeliveries each have a queue to themselves. In SQL, a
//! queue is a row of `lanes`.
//!
//! The head of a queue is its unfinished delivery with the smallest id. `waiting` counts the
//! unfinished deliveries; the row is deleted with the last one. Transactions that add or finish
//! deliveries of a queue lock its row first, so the ids in a queue are committed in order. A queue
//! whose hook is paused or inactive is parked, due at [`PARKED_US`].
//!
//! Transactions that lock several of these rows do so in one order: the hook, then queues by key,
//! then deliveries.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use ferrite_db::args;
use ferrite_db::{DbError, Query, Tx, Value};
use ferrite_proto::id::{HookId, RepositoryId};

/// When a queue is due that waits for its hook.
pub(super) const PARKED_US: i64 = i64::MAX;
pub(crate) const TEST_SOURCE: i64 = 4;
/// Bounds the arguments of one statement to what both databases accept.
const MAX_INSERT_ROWS: usize = 500;
/// Deliveries of a deleted hook to mark as cancelled at once. The rest is deleted with the hook's
/// log.
const MAX_CANCELLED_ROWS: i64 = 1000;

const ADD_QUEUES: &str = "INSERT INTO lanes \
     (hook_id, repository_id, source, delivery_id, waiting, next_us, claimed_until_us, epoch) VALUES ";
const COUNT_QUEUES: &str = " ON CONFLICT (hook_id, repository_id, source, delivery_id) \
     DO UPDATE SET waiting = lanes.waiting + excluded.waiting";
const ADD_DELIVERIES: &str = "INSERT INTO deliveries \
     (uuid, hook_id, event_id, repository_id, source, lane_delivery_id, status, attempts, failures, created_us, bytes) VALUES ";
const ADD_OWN: &str = "INSERT INTO deliveries \
     (uuid, hook_id, event_id, repository_id, source, lane_delivery_id, status, attempts, failures, created_us) \
     VALUES ($1, $2, $3, $4, $5, 0, 0, 0, 0, $6) RETURNING id";
const SET_OWN_QUEUE: &str = "UPDATE deliveries SET lane_delivery_id = id WHERE id = $1";

const LOCK_QUEUES_POSTGRES: &str = "SELECT delivery_id FROM lanes WHERE hook_id = $1 \
     ORDER BY repository_id, source, delivery_id FOR UPDATE";
const RESUME: &str = "UPDATE lanes SET next_us = $2 WHERE hook_id = $1 AND next_us = $3";
const DELETE_QUEUES: &str = "DELETE FROM lanes WHERE hook_id = $1";
const CANCEL: &str = "UPDATE deliveries SET status = 4, next_attempt_us = NULL, finished_us = $2 WHERE id IN \
     (SELECT id FROM deliveries WHERE hook_id = $1 AND status < 2 ORDER BY id LIMIT $3)";

#[derive(Clone, Debug)]
pub(crate) struct NewDelivery {
    pub(crate) uuid: String,
    pub(crate) hook: HookId,
    pub(crate) event_id: i64,
    pub(crate) repository: RepositoryId,
    pub(crate) source: i64,
    /// Bytes that the caller has already counted for the repository, whose row it has locked, or
    /// zero.
    pub(crate) bytes: i64,
}

/// The key of a queue. `delivery_id` is zero for a queue that deliveries share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct QueueKey {
    pub(crate) hook: HookId,
    pub(crate) repository: RepositoryId,
    pub(crate) source: i64,
    pub(crate) delivery_id: i64,
}

impl QueueKey {
    /// Returns whether the queue holds a test, which is sent even if its hook is paused or
    /// inactive.
    pub(crate) fn is_test(self) -> bool {
        self.source == TEST_SOURCE
    }

    pub(super) fn columns(self) -> [Value; 4] {
        args![self.hook, self.repository, self.source, self.delivery_id]
    }

    fn of(new: &NewDelivery) -> Self {
        Self { hook: new.hook, repository: new.repository, source: new.source, delivery_id: 0 }
    }
}

/// Queues deliveries in the order of `new`, after those already queued. Wake the sender after the
/// commit. A UUID that already exists is a violation.
pub(crate) async fn enqueue(tx: &mut Tx, new: &[NewDelivery], now_us: i64) -> Result<(), DbError> {
    let mut queues = BTreeMap::new();
    for delivery in new {
        *queues.entry(QueueKey::of(delivery)).or_default() += 1;
    }
    add_waiting(tx, &queues, now_us).await?;
    for chunk in new.chunks(MAX_INSERT_ROWS) {
        let mut query = Query::new(ADD_DELIVERIES);
        for (index, delivery) in chunk.iter().enumerate() {
            query.push(if index == 0 { "(" } else { ", (" }).bind(&delivery.uuid).push(", ").bind(delivery.hook);
            query.push(", ").bind(delivery.event_id).push(", ").bind(delivery.repository);
            query.push(", ").bind(delivery.source).push(", 0, 0, 0, 0, ").bind(now_us);
            query.push(", ").bind(delivery.bytes).push(")");
        }
        tx.execute(query.sql(), query.args()).await?;
    }
    Ok(())
}

/// Queues a delivery apart from others, so that it does not wait for them. Returns its id. A UUID
/// that already exists is a violation.
pub(crate) async fn enqueue_alone(tx: &mut Tx, new: &NewDelivery, now_us: i64) -> Result<i64, DbError> {
    let args = args![&new.uuid, new.hook, new.event_id, new.repository, new.source, now_us];
    let (id,): (i64,) = tx.one(ADD_OWN, &args).await?;
    tx.execute(SET_OWN_QUEUE, &args![id]).await?;
    let key = QueueKey { delivery_id: id, ..QueueKey::of(new) };
    add_waiting(tx, &BTreeMap::from([(key, 1)]), now_us).await?;
    Ok(id)
}

/// Adds to the number of waiting deliveries and locks the queues in the order of their keys. New
/// queues are due at `due_us`.
pub(super) async fn add_waiting(tx: &mut Tx, queues: &BTreeMap<QueueKey, i64>, due_us: i64) -> Result<(), DbError> {
    let queues: Vec<_> = queues.iter().collect();
    for chunk in queues.chunks(MAX_INSERT_ROWS) {
        let mut query = Query::new(ADD_QUEUES);
        for (index, (key, waiting)) in chunk.iter().enumerate() {
            query.push(if index == 0 { "(" } else { ", (" }).bind(key.hook).push(", ").bind(key.repository);
            query.push(", ").bind(key.source).push(", ").bind(key.delivery_id).push(", ").bind(**waiting);
            query.push(", ").bind(due_us).push(", 0, 0)");
        }
        query.push(COUNT_QUEUES);
        tx.execute(query.sql(), query.args()).await?;
    }
    Ok(())
}

/// Makes the parked queues of a hook due, after this transaction has resumed or activated the hook.
/// Wake the sender after the commit.
///
/// Pausing a hook needs no such step: the sender parks each queue that is due, under the lock of
/// the hook's row.
pub(crate) async fn resume(tx: &mut Tx, hook: HookId, now_us: i64) -> Result<(), DbError> {
    lock_queues(tx, hook).await?;
    tx.execute(RESUME, &args![hook, now_us, PARKED_US]).await?;
    Ok(())
}

/// Cancels the unfinished deliveries of a hook that this transaction deletes.
pub(crate) async fn cancel(tx: &mut Tx, hook: HookId, now_us: i64) -> Result<(), DbError> {
    lock_queues(tx, hook).await?;
    tx.execute(DELETE_QUEUES, &args![hook]).await?;
    tx.execute(CANCEL, &args![hook, now_us, MAX_CANCELLED_ROWS]).await?;
    Ok(())
}

/// Locks all queues of a hook in the order of their keys. On SQLite, the transaction already
/// excludes other writers.
async fn lock_queues(tx: &mut Tx, hook: HookId) -> Result<(), DbError> {
    if tx.pick(true, false) {
        tx.execute(LOCK_QUEUES_POSTGRES, &args![hook]).await?;
    }
    Ok(())
}
