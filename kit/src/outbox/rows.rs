//! The SQL of the tables `outbox` and `inbox`: appending, claiming, marking and purging rows.
//!
//! Not here: calls to subscribers, which are in `relay`.

use ferrite_proto::events::Event;
use prost::Message;

use super::event::kind;
use crate::args;
use crate::db::{Db, DbError, Tx};

const APPEND: &str = "INSERT INTO outbox (event_id, subscriber, repository_id, kind, payload, created_us, next_attempt_us, claimed_until_us, epoch, attempts) \
     VALUES ($1, $2, $3, $4, $5, $6, $6, 0, 0, 0)";
/// Claims rows that are due. A row is left out if an earlier row of its repository is claimed or waits for its next attempt, because
/// that one must be delivered first. The limit is the largest number of events of a delivery.
const CLAIM: &str = "UPDATE outbox SET claimed_until_us = $2, epoch = epoch + 1 WHERE id IN (\
     SELECT o.id FROM outbox o WHERE o.subscriber = $1 AND o.delivered_us IS NULL AND o.claimed_until_us < $3 AND o.next_attempt_us <= $3 \
     AND NOT EXISTS (SELECT 1 FROM outbox e WHERE e.subscriber = o.subscriber AND e.repository_id = o.repository_id \
     AND e.delivered_us IS NULL AND e.id < o.id AND (e.claimed_until_us >= $3 OR e.next_attempt_us > $3)) \
     ORDER BY o.id LIMIT 64) RETURNING id, epoch, attempts, event_id, repository_id, payload";
/// Makes claims of replicas exclude each other, so that none claims a later row of a repository while another claims an earlier one.
const CLAIM_LOCK: &str =
    "SELECT CAST(1 AS BIGINT) FROM (SELECT pg_advisory_xact_lock(hashtext('ferrite.outbox'))) AS locked";
const DELIVERED: &str = "UPDATE outbox SET delivered_us = $3, claimed_until_us = 0 WHERE id = $1 AND epoch = $2";
const FAILED: &str = "UPDATE outbox SET claimed_until_us = 0, attempts = attempts + 1, next_attempt_us = $3 WHERE id = $1 AND epoch = $2";
const PURGE: &str = "DELETE FROM outbox WHERE delivered_us < $1";
const PURGE_INBOX: &str = "DELETE FROM inbox WHERE received_us < $1";
const BACKLOG: &str = "SELECT COUNT(*) FROM outbox WHERE subscriber = $1 AND delivered_us IS NULL";

/// A claimed row: one event for one subscriber.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(super) struct OutboxRow {
    pub(super) id: i64,
    pub(super) epoch: i64,
    pub(super) attempts: i64,
    pub(super) event_id: String,
    pub(super) repository_id: i64,
    pub(super) payload: Vec<u8>,
}

/// Writes `event` for each of `subscribers`, in the transaction of the change that the event reports.
///
/// Two transactions that append events of one repository must exclude each other (by a row lock or a lock in memory). Otherwise the
/// order of their events is undefined.
///
/// # Errors
/// When the database fails.
pub async fn append(tx: &mut Tx, event: &Event, subscribers: &[&str], now_us: i64) -> Result<(), DbError> {
    let payload = event.encode_to_vec();
    for subscriber in subscribers {
        let args =
            args![event.event_id.as_str(), *subscriber, event.repository_id, kind(event), payload.as_slice(), now_us];
        tx.execute(APPEND, &args).await?;
    }
    Ok(())
}

/// Claims and returns the rows to deliver now. Claims and the marks below need not survive a crash of the machine: after it the rows
/// are delivered again, and applied once.
pub(super) async fn claim(db: &Db, subscriber: &str, now_us: i64, until_us: i64) -> Result<Vec<OutboxRow>, DbError> {
    // A read is cheap on SQLite; a poll without rows must not occupy its single writer.
    if backlog(db, subscriber).await? == 0 {
        return Ok(Vec::new());
    }
    let mut tx = db.begin_relaxed().await?;
    // On SQLite the single writer is the lock.
    if let Some(lock) = tx.pick(Some(CLAIM_LOCK), None) {
        let _: (i64,) = tx.one(lock, &[]).await?;
    }
    let mut rows: Vec<OutboxRow> = tx.all(CLAIM, &args![subscriber, until_us, now_us]).await?;
    tx.commit().await?;
    rows.sort_by_key(|row| row.id);
    Ok(rows)
}

/// Marks rows as delivered, unless another claim has replaced the one they were read with.
pub(super) async fn delivered(db: &Db, rows: &[OutboxRow], now_us: i64) -> Result<(), DbError> {
    let mut tx = db.begin_relaxed().await?;
    for row in rows {
        tx.execute(DELIVERED, &args![row.id, row.epoch, now_us]).await?;
    }
    tx.commit().await
}

/// Releases rows for another attempt at `next_attempt_us`.
pub(super) async fn failed(db: &Db, rows: &[OutboxRow], next_attempt_us: i64) -> Result<(), DbError> {
    let mut tx = db.begin_relaxed().await?;
    for row in rows {
        tx.execute(FAILED, &args![row.id, row.epoch, next_attempt_us]).await?;
    }
    tx.commit().await
}

/// Returns the number of rows that are not delivered.
pub(super) async fn backlog(db: &Db, subscriber: &str) -> Result<i64, DbError> {
    let (count,): (i64,) = db.one(BACKLOG, &args![subscriber]).await?;
    Ok(count)
}

/// Deletes rows of both tables that were delivered or received before `before_us`.
pub(super) async fn purge(db: &Db, before_us: i64) -> Result<(), DbError> {
    let mut tx = db.begin_relaxed().await?;
    tx.execute(PURGE, &args![before_us]).await?;
    tx.execute(PURGE_INBOX, &args![before_us]).await?;
    tx.commit().await
}
