//! Claims of queues. A process that sends the head of a queue holds a lease on it; another process
//! may take over when the lease ends.
//!
//! The random id of a claim is the queue's `epoch`. If a claim was replaced, its process records
//! nothing. A claimed queue is due again when its lease ends.
//!
//! Claims need not survive a crash of the machine: deliveries are then sent again, with the same
//! UUIDs.

use ferrite_db::args;
use ferrite_db::{Db, DbError, Query};
use ferrite_proto::id::{HookId, RepositoryId};
use sqlx_macros::FromRow;

use super::queues::{PARKED_US, QueueKey};

/// Due queues per query.
pub(crate) const MAX_DUE_QUEUES: usize = 512;

const DUE: &str = "SELECT hook_id, repository_id, source, delivery_id FROM lanes WHERE next_us <= ";

// Arguments of a claim: $1 now, $2 the end of the lease, $3 the id, and the keys from $4.
const CLAIM_SQLITE: &str = "UPDATE lanes SET next_us = $2, claimed_until_us = $2, epoch = $3 \
     WHERE next_us <= $1 AND claimed_until_us <= $1 AND (hook_id, repository_id, source, delivery_id) IN (VALUES ";
/// Skips queues locked by another transaction: either another process is claiming them, or the
/// process that holds the lock will wake its sender.
const CLAIM_POSTGRES: &str = "UPDATE lanes l SET next_us = $2, claimed_until_us = $2, epoch = $3 FROM \
     (SELECT hook_id, repository_id, source, delivery_id FROM lanes WHERE next_us <= $1 AND claimed_until_us <= $1 \
     AND (hook_id, repository_id, source, delivery_id) IN (VALUES ";
const CLAIM_END_POSTGRES: &str = ") FOR UPDATE SKIP LOCKED) due WHERE l.hook_id = due.hook_id \
     AND l.repository_id = due.repository_id AND l.source = due.source AND l.delivery_id = due.delivery_id";
/// Must be a separate statement. On PostgreSQL, the claiming statement could see an older snapshot
/// of the deliveries than of the queues it locked.
const CLAIMED: &str = "SELECT c.hook_id, c.repository_id, c.source, c.delivery_id, d.id, d.uuid, d.event_id, d.attempts, d.failures \
     FROM (SELECT l.hook_id, l.repository_id, l.source, l.delivery_id, (SELECT w.id FROM deliveries w \
     WHERE w.hook_id = l.hook_id AND w.repository_id = l.repository_id AND w.source = l.source \
     AND w.lane_delivery_id = l.delivery_id AND w.status < 2 ORDER BY w.id LIMIT 1) AS head \
     FROM lanes l WHERE l.next_us = $2 AND l.epoch = $3) c LEFT JOIN deliveries d ON d.id = c.head";

const LOCK_HOOK_POSTGRES: &str = "SELECT is_active, paused_reason FROM hooks WHERE id = $1 FOR SHARE";
const LOCK_HOOK_SQLITE: &str = "SELECT is_active, paused_reason FROM hooks WHERE id = $1";
/// Ends a claim and sets when the queue is due again.
pub(super) const RELEASE: &str = "UPDATE lanes SET next_us = $6, claimed_until_us = 0, epoch = 0 \
     WHERE hook_id = $1 AND repository_id = $2 AND source = $3 AND delivery_id = $4 AND epoch = $5";
const DELETE_QUEUE: &str = "DELETE FROM lanes \
     WHERE hook_id = $1 AND repository_id = $2 AND source = $3 AND delivery_id = $4 AND epoch = $5";
const CANCEL_QUEUE: &str = "UPDATE deliveries SET status = 4, next_attempt_us = NULL, finished_us = $5 \
     WHERE hook_id = $1 AND repository_id = $2 AND source = $3 AND lane_delivery_id = $4 AND status < 2";
const LOCK_QUEUE_POSTGRES: &str = "SELECT waiting FROM lanes \
     WHERE hook_id = $1 AND repository_id = $2 AND source = $3 AND delivery_id = $4 FOR UPDATE";
const RECOUNT: &str = "UPDATE lanes SET next_us = $6, claimed_until_us = 0, epoch = 0, waiting = (SELECT COUNT(*) FROM deliveries w \
     WHERE w.hook_id = $1 AND w.repository_id = $2 AND w.source = $3 AND w.lane_delivery_id = $4 AND w.status < 2) \
     WHERE hook_id = $1 AND repository_id = $2 AND source = $3 AND delivery_id = $4 AND epoch = $5 RETURNING waiting";
const DELETE_EMPTY: &str = "DELETE FROM lanes \
     WHERE hook_id = $1 AND repository_id = $2 AND source = $3 AND delivery_id = $4 AND waiting = 0";

/// The next delivery of a queue.
#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
pub(crate) struct Head {
    pub(crate) id: i64,
    pub(crate) uuid: String,
    pub(crate) event_id: i64,
    pub(crate) attempts: i64,
    /// Failed attempts since the delivery was queued.
    pub(crate) failures: i64,
}

/// A queue that this process holds until its lease ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) queue: QueueKey,
    pub(super) epoch: i64,
}

#[derive(FromRow)]
struct KeyRow {
    hook_id: i64,
    repository_id: i64,
    source: i64,
    delivery_id: i64,
}

#[derive(FromRow)]
struct ClaimedRow {
    #[sqlx(flatten)]
    key: KeyRow,
    id: Option<i64>,
    uuid: Option<String>,
    event_id: Option<i64>,
    attempts: Option<i64>,
    failures: Option<i64>,
}

impl From<KeyRow> for QueueKey {
    fn from(row: KeyRow) -> Self {
        Self {
            hook: HookId(row.hook_id),
            repository: RepositoryId(row.repository_id),
            source: row.source,
            delivery_id: row.delivery_id,
        }
    }
}

impl ClaimedRow {
    fn head(&mut self) -> Option<Head> {
        Some(Head {
            id: self.id?,
            uuid: self.uuid.take()?,
            event_id: self.event_id?,
            attempts: self.attempts?,
            failures: self.failures?,
        })
    }
}

/// Returns at most [`MAX_DUE_QUEUES`] due queues, the most overdue first. Skips the hooks in
/// `excluded`.
pub(crate) async fn due(db: &Db, now_us: i64, excluded: &[HookId]) -> Result<Vec<QueueKey>, DbError> {
    let mut query = Query::new(DUE);
    query.bind(now_us);
    if !excluded.is_empty() {
        query.push(" AND hook_id NOT IN ").bind_list(excluded.iter().copied());
    }
    query.push(" ORDER BY next_us LIMIT ").bind(MAX_DUE_QUEUES as i64);
    let rows: Vec<KeyRow> = db.all(query.sql(), query.args()).await?;
    Ok(rows.into_iter().map(QueueKey::from).collect())
}

/// Claims those of `queues` that are due, until `until_us`, and returns each with its head. Repairs
/// queues that a fault has left without a head.
pub(crate) async fn claim(
    db: &Db,
    queues: &[QueueKey],
    now_us: i64,
    until_us: i64,
) -> Result<Vec<(Claim, Head)>, DbError> {
    if queues.is_empty() {
        return Ok(Vec::new());
    }
    let epoch: i64 = rand::random();
    let mut args = args![now_us, until_us, epoch].to_vec();
    let mut keys = Vec::new();
    // Pad the list, so that few prepared statements suffice. No hook has the id -1.
    let nothing = QueueKey { hook: HookId(-1), repository: RepositoryId(-1), source: 0, delivery_id: 0 };
    for key in queues.iter().chain(std::iter::repeat(&nothing)).take(queues.len().next_power_of_two()) {
        let first = args.len() + 1;
        args.extend(key.columns());
        keys.push(format!("(${first}, ${}, ${}, ${})", first + 1, first + 2, first + 3));
    }
    let (begin, end) = db.pick((CLAIM_POSTGRES, CLAIM_END_POSTGRES), (CLAIM_SQLITE, ")"));
    let statement = format!("{begin}{}{end}", keys.join(", "));
    let rows: Vec<ClaimedRow> = db.all_relaxed(&[(&statement, args.len()), (CLAIMED, 3)], &args).await?;
    let mut claimed = Vec::new();
    for mut row in rows {
        let head = row.head();
        let claim = Claim { queue: row.key.into(), epoch };
        match head {
            Some(head) => claimed.push((claim, head)),
            None => recount(db, &claim, now_us).await?,
        }
    }
    Ok(claimed)
}

/// Corrects the number of waiting deliveries of a queue.
async fn recount(db: &Db, claim: &Claim, now_us: i64) -> Result<(), DbError> {
    tracing::warn!(
        hook.id = claim.queue.hook.0,
        repo.id = claim.queue.repository.0,
        "repairing a queue without deliveries"
    );
    let mut tx = db.begin().await?;
    let key = claim.queue.columns();
    // Lock in a separate statement, so that the count sees everything that earlier holders of the
    // lock committed.
    if tx.pick(true, false) {
        tx.execute(LOCK_QUEUE_POSTGRES, &key).await?;
    }
    let counted: Option<(i64,)> = tx.optional(RECOUNT, &[key.as_slice(), &args![claim.epoch, now_us]].concat()).await?;
    if counted == Some((0,)) {
        tx.execute(DELETE_EMPTY, &key).await?;
    }
    tx.commit().await
}

/// Returns a claimed queue that must not be sent. If its hook is paused or inactive, the queue is
/// parked; if the hook was resumed since, the queue is due again; if the hook was deleted, the
/// deliveries are cancelled.
pub(crate) async fn give_back(db: &Db, claim: &Claim, now_us: i64) -> Result<(), DbError> {
    let key = claim.queue.columns();
    let mut tx = db.begin().await?;
    // The lock makes a concurrent resume wait. Otherwise it could miss this queue, which is not
    // parked yet.
    let hook: Option<(bool, Option<String>)> =
        tx.optional(db.pick(LOCK_HOOK_POSTGRES, LOCK_HOOK_SQLITE), &args![claim.queue.hook]).await?;
    let Some((is_active, paused)) = hook else {
        if tx.execute(DELETE_QUEUE, &[key.as_slice(), &args![claim.epoch]].concat()).await? > 0 {
            tx.execute(CANCEL_QUEUE, &[key.as_slice(), &args![now_us]].concat()).await?;
        }
        return tx.commit().await;
    };
    let next_us = if is_active && paused.is_none() { now_us } else { PARKED_US };
    tx.execute(RELEASE, &[key.as_slice(), &args![claim.epoch, next_us]].concat()).await?;
    tx.commit().await
}

/// Returns a claimed queue, which is due again at `next_us`.
pub(crate) async fn release(db: &Db, claim: &Claim, next_us: i64) -> Result<(), DbError> {
    let args = [claim.queue.columns().as_slice(), &args![claim.epoch, next_us]].concat();
    db.all_relaxed::<(i64,)>(&[(RELEASE, args.len())], &args).await?;
    Ok(())
}
