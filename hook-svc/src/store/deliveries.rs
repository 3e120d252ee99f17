//! Deliveries as the sender and the delivery log see them, and redeliveries on request.

use std::collections::BTreeMap;

use ferrite_core::page::Page;
use ferrite_db::args;
use ferrite_db::{Db, DbError, Query, Tx};
use ferrite_proto::id::{HookId, RepositoryId};
use sqlx_macros::FromRow;
use uuid::Uuid;

use super::kept_bytes;
use super::queues::{self, NewDelivery, QueueKey, TEST_SOURCE};

/// Larger payloads are read separately, once there is memory for them.
pub(crate) const MAX_SMALL_PAYLOAD_BYTES: i64 = 64 * 1024;
/// Maximum number of deliveries in one replay.
pub(crate) const MAX_REPLAYED: usize = 1000;
/// While a hook has more waiting deliveries than this, its owner cannot request any.
pub(crate) const MAX_WAITING: i64 = 1000;
/// Lists stop counting deliveries here.
const MAX_COUNTED: i64 = 10_000;

const PAYLOAD: &str = "SELECT name AS event, CASE WHEN OCTET_LENGTH(payload) <= $2 THEN payload END AS payload, \
     CAST(COALESCE(OCTET_LENGTH(payload), 0) AS BIGINT) AS payload_bytes, trace_parent FROM events WHERE id = $1";
const LARGE_PAYLOAD: &str = "SELECT payload FROM events WHERE id = $1";
const QUEUE_LENGTH: &str = "SELECT CAST(COALESCE(SUM(waiting), 0) AS BIGINT) FROM lanes";
const WAITING: &str = "SELECT CAST(COALESCE(SUM(waiting), 0) AS BIGINT) FROM lanes WHERE hook_id = $1 AND source >= $2";
/// A queue that is being sent is due only when its lease ends, so these are waiting for a sender.
const DUE: &str =
    "SELECT COUNT(*), MIN(l.next_us) FROM (SELECT next_us FROM lanes WHERE next_us <= $1 ORDER BY next_us LIMIT $2) l";
/// Looks at the thousand queues that are due first.
const OLDEST: &str = "SELECT MIN(d.created_us) FROM deliveries d WHERE d.id IN (SELECT (SELECT w.id FROM deliveries w \
     WHERE w.hook_id = l.hook_id AND w.repository_id = l.repository_id AND w.source = l.source \
     AND w.lane_delivery_id = l.delivery_id AND w.status < 2 ORDER BY w.id LIMIT 1) \
     FROM (SELECT * FROM lanes ORDER BY next_us LIMIT 1000) l)";

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT d.id, d.uuid, d.hook_id, d.repository_id, e.name AS event, d.status, d.attempts, d.response_status, \
             d.duration_ms, d.next_attempt_us, d.created_us, d.finished_us FROM deliveries d JOIN events e ON e.id = d.event_id ",
            $rest
        )
    };
}

const LIST: &str = select!("WHERE d.hook_id = ");
const FIND: &str = select!("WHERE d.uuid = $1 AND d.hook_id = $2");
/// The subquery reads one entry of the index per hook.
const NEWEST: &str = select!(
    "WHERE d.id IN (SELECT (SELECT MAX(n.id) FROM deliveries n WHERE n.hook_id = h.id) FROM hooks h WHERE h.id IN "
);
const COUNT: &str =
    "SELECT COUNT(*) FROM (SELECT 1 FROM deliveries d JOIN events e ON e.id = d.event_id WHERE d.hook_id = ";

const REQUEUE_ALONE: &str = "UPDATE deliveries SET status = 0, failures = 0, lane_delivery_id = id, next_attempt_us = NULL, \
     finished_us = NULL WHERE uuid = $1 AND hook_id = $2 AND status >= 2 RETURNING id, repository_id, source";
const FIND_QUEUE: &str =
    "SELECT id, repository_id, source, lane_delivery_id FROM deliveries WHERE uuid = $1 AND hook_id = $2";
/// Makes a queue due now if this delivery is its head, unless it is being sent.
const HURRY: &str = "UPDATE lanes SET next_us = $5 WHERE hook_id = $1 AND repository_id = $2 AND source = $3 AND delivery_id = $4 \
     AND claimed_until_us <= $5 AND NOT EXISTS (SELECT 1 FROM deliveries w WHERE w.hook_id = $1 AND w.repository_id = $2 \
     AND w.source = $3 AND w.lane_delivery_id = $4 AND w.status < 2 AND w.id < $6)";
const FINISHED_BETWEEN: &str = "SELECT id, event_id, repository_id, source FROM deliveries \
     WHERE hook_id = $1 AND status >= 2 AND source <> $2 AND created_us BETWEEN $3 AND $4 ORDER BY id LIMIT $5";
const STILL_FINISHED: &str = "SELECT id, event_id, repository_id, source FROM deliveries WHERE status >= 2 AND id IN ";
const REQUEUE: &str = "UPDATE deliveries SET status = 0, failures = 0, lane_delivery_id = 0, next_attempt_us = NULL, \
     finished_us = NULL WHERE status >= 2 AND id IN ";

#[derive(Clone, Debug, FromRow)]
pub(crate) struct StoredPayload {
    pub(crate) event: String,
    /// The native payload. `None` if there is none or if it is large.
    pub(crate) payload: Option<String>,
    payload_bytes: i64,
    /// The trace context of the request that caused the event.
    pub(crate) trace_parent: Option<String>,
}

impl StoredPayload {
    /// Returns whether to read the payload with [`large_payload`].
    pub(crate) fn is_large(&self) -> bool {
        self.payload_bytes > MAX_SMALL_PAYLOAD_BYTES
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueTotals {
    pub(crate) length: i64,
    pub(crate) oldest_us: Option<i64>,
    /// The number of due queues, up to a limit.
    pub(crate) due_queues: i64,
    pub(crate) due_since_us: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Not attempted since it was queued.
    Pending,
    /// Failed, with a retry to come.
    Retrying,
    Succeeded,
    /// Failed for good.
    Exhausted,
    /// The hook was deleted before the delivery was sent, or the delivery made room for newer
    /// events.
    Cancelled,
}

impl Status {
    const ALL: [Self; 5] = [Self::Pending, Self::Retrying, Self::Succeeded, Self::Exhausted, Self::Cancelled];

    fn column(self) -> i64 {
        Self::ALL.iter().position(|status| *status == self).map_or(0, |index| index as i64)
    }

    pub(crate) fn from_column(column: i64) -> Option<Self> {
        usize::try_from(column).ok().and_then(|index| Self::ALL.get(index)).copied()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
pub(crate) struct Delivery {
    pub(crate) id: i64,
    pub(crate) uuid: String,
    pub(crate) hook_id: i64,
    pub(crate) repository_id: i64,
    pub(crate) event: String,
    /// See [`Status::from_column`].
    pub(crate) status: i64,
    pub(crate) attempts: i64,
    pub(crate) response_status: Option<i64>,
    pub(crate) duration_ms: Option<i64>,
    pub(crate) next_attempt_us: Option<i64>,
    pub(crate) created_us: i64,
    pub(crate) finished_us: Option<i64>,
}

impl Delivery {
    /// Returns whether there are no further attempts unless someone requests one.
    pub(crate) fn is_finished(&self) -> bool {
        !matches!(Status::from_column(self.status), Some(Status::Pending | Status::Retrying))
    }
}

/// Which waiting deliveries to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    All,
    Tests,
}

impl Waiting {
    fn first_source(self) -> i64 {
        match self {
            Self::All => 0,
            // Tests have the highest source.
            Self::Tests => TEST_SOURCE,
        }
    }
}

/// Selects the deliveries of a list. Times are inclusive.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    pub(crate) status: Option<Status>,
    pub(crate) event: Option<String>,
    pub(crate) since_us: Option<i64>,
    pub(crate) until_us: Option<i64>,
}

impl Filter {
    fn push(&self, query: &mut Query) {
        if let Some(status) = self.status {
            query.push(" AND d.status = ").bind(status.column());
        }
        if let Some(event) = &self.event {
            query.push(" AND e.name = ").bind(event);
        }
        if let Some(since_us) = self.since_us {
            query.push(" AND d.created_us >= ").bind(since_us);
        }
        if let Some(until_us) = self.until_us {
            query.push(" AND d.created_us <= ").bind(until_us);
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct DeliveryPage {
    /// Newest first.
    pub(crate) deliveries: Vec<Delivery>,
    pub(crate) total_count: i64,
    /// Whether there are more than were counted.
    pub(crate) is_partial: bool,
}

#[derive(FromRow)]
struct QueueRow {
    id: i64,
    repository_id: i64,
    source: i64,
}

/// A delivery that was finished when it was found.
#[derive(Clone, Copy, Debug, FromRow)]
pub(crate) struct FinishedDelivery {
    id: i64,
    event_id: i64,
    repository_id: i64,
    source: i64,
}

/// Returns the name of an event and its payload, unless the payload is large. `None` if the event
/// was deleted.
pub(crate) async fn payload(db: &Db, event_id: i64) -> Result<Option<StoredPayload>, DbError> {
    db.optional(PAYLOAD, &args![event_id, MAX_SMALL_PAYLOAD_BYTES]).await
}

pub(crate) async fn large_payload(db: &Db, event_id: i64) -> Result<Option<String>, DbError> {
    let row: Option<(Option<String>,)> = db.optional(LARGE_PAYLOAD, &args![event_id]).await?;
    Ok(row.and_then(|(payload,)| payload))
}

pub(crate) async fn queue_totals(db: &Db, now_us: i64) -> Result<QueueTotals, DbError> {
    let (length,): (i64,) = db.one(QUEUE_LENGTH, &[]).await?;
    let (oldest_us,): (Option<i64>,) = db.one(OLDEST, &[]).await?;
    let (due_queues, due_since_us): (i64, Option<i64>) = db.one(DUE, &args![now_us, MAX_COUNTED]).await?;
    Ok(QueueTotals { length, oldest_us, due_queues, due_since_us })
}

/// Returns the number of waiting deliveries of a hook.
pub(crate) async fn waiting(db: &Db, hook: HookId, which: Waiting) -> Result<i64, DbError> {
    let (count,): (i64,) = db.one(WAITING, &args![hook, which.first_source()]).await?;
    Ok(count)
}

/// Like [`waiting`], in a transaction that has locked the hook's row, so the number cannot grow
/// until it ends.
pub(crate) async fn waiting_in(tx: &mut Tx, hook: HookId, which: Waiting) -> Result<i64, DbError> {
    let (count,): (i64,) = tx.one(WAITING, &args![hook, which.first_source()]).await?;
    Ok(count)
}

/// Returns a page of a hook's deliveries.
pub(crate) async fn list(db: &Db, hook: HookId, filter: &Filter, page: Page) -> Result<DeliveryPage, DbError> {
    let mut query = Query::new(LIST);
    query.bind(hook);
    filter.push(&mut query);
    query.push(" ORDER BY d.id DESC LIMIT ").bind(page.size()).push(" OFFSET ").bind(page.offset());
    let deliveries: Vec<Delivery> = db.all(query.sql(), query.args()).await?;
    let mut query = Query::new(COUNT);
    query.bind(hook);
    filter.push(&mut query);
    query.push(" LIMIT ").bind(MAX_COUNTED + 1).push(") counted");
    let (count,): (i64,) = db.one(query.sql(), query.args()).await?;
    Ok(DeliveryPage { deliveries, total_count: count.min(MAX_COUNTED), is_partial: count > MAX_COUNTED })
}

/// Returns the newest delivery of each of these hooks that has one, in any order.
pub(crate) async fn newest(db: &Db, hooks: impl IntoIterator<Item = HookId>) -> Result<Vec<Delivery>, DbError> {
    let mut query = Query::new(NEWEST);
    query.bind_list(hooks).push(")");
    db.all(query.sql(), query.args()).await
}

pub(crate) async fn find(db: &Db, hook: HookId, uuid: &str) -> Result<Option<Delivery>, DbError> {
    db.optional(FIND, &args![uuid, hook]).await
}

pub(crate) async fn find_in(tx: &mut Tx, hook: HookId, uuid: &str) -> Result<Option<Delivery>, DbError> {
    tx.optional(FIND, &args![uuid, hook]).await
}

/// Queues a finished delivery again, apart from others. A delivery that waits for its retry is
/// attempted at once; one behind others in its queue keeps waiting. Returns `None` if there is no
/// such delivery. The hook's row must be locked.
pub(crate) async fn redeliver(tx: &mut Tx, hook: HookId, uuid: &str, now_us: i64) -> Result<Option<Delivery>, DbError> {
    let requeued: Option<QueueRow> = tx.optional(REQUEUE_ALONE, &args![uuid, hook]).await?;
    if let Some(row) = requeued {
        let repository = RepositoryId(row.repository_id);
        let key = QueueKey { hook, repository, source: row.source, delivery_id: row.id };
        queues::add_waiting(tx, &BTreeMap::from([(key, 1)]), now_us).await?;
    } else {
        let waiting: Option<(i64, i64, i64, i64)> = tx.optional(FIND_QUEUE, &args![uuid, hook]).await?;
        if let Some((id, repository_id, source, delivery_id)) = waiting {
            tx.execute(HURRY, &args![hook, repository_id, source, delivery_id, now_us, id]).await?;
        }
    }
    find_in(tx, hook, uuid).await
}

/// Returns the finished deliveries of a period in order, without tests. `None` if there are more
/// than [`MAX_REPLAYED`].
pub(crate) async fn finished_between(
    db: &Db,
    hook: HookId,
    (from_us, to_us): (i64, i64),
) -> Result<Option<Vec<FinishedDelivery>>, DbError> {
    let args = args![hook, TEST_SOURCE, from_us, to_us, MAX_REPLAYED as i64 + 1];
    let found: Vec<FinishedDelivery> = db.all(FINISHED_BETWEEN, &args).await?;
    Ok((found.len() <= MAX_REPLAYED).then_some(found))
}

/// Locks the repositories of deliveries, so that the events they need are not deleted until the
/// transaction ends. Call it before locking the hook's row.
pub(crate) async fn lock_repositories(tx: &mut Tx, deliveries: &[FinishedDelivery]) -> Result<(), DbError> {
    kept_bytes::lock(tx, &deliveries.iter().map(|delivery| delivery.repository_id).collect()).await
}

/// Queues deliveries again, in order, with their UUIDs or as new deliveries. Skips those that have
/// been removed or queued since. Returns the number queued. The rows of their repositories and of
/// the hook must be locked.
pub(crate) async fn replay(
    tx: &mut Tx,
    hook: HookId,
    deliveries: &[FinishedDelivery],
    has_new_ids: bool,
    now_us: i64,
) -> Result<i64, DbError> {
    if deliveries.is_empty() {
        return Ok(0);
    }
    if has_new_ids {
        replay_as_new(tx, hook, deliveries, now_us).await
    } else {
        requeue(tx, hook, deliveries, now_us).await
    }
}

async fn replay_as_new(
    tx: &mut Tx,
    hook: HookId,
    deliveries: &[FinishedDelivery],
    now_us: i64,
) -> Result<i64, DbError> {
    let mut query = Query::new(STILL_FINISHED);
    query.bind_list(deliveries.iter().map(|delivery| delivery.id)).push(" ORDER BY id");
    let rows: Vec<FinishedDelivery> = tx.all(query.sql(), query.args()).await?;
    let new = |row: &FinishedDelivery| NewDelivery {
        uuid: Uuid::new_v4().to_string(),
        hook,
        event_id: row.event_id,
        repository: RepositoryId(row.repository_id),
        source: row.source,
        bytes: 0,
    };
    let new: Vec<_> = rows.iter().map(new).collect();
    queues::enqueue(tx, &new, now_us).await?;
    Ok(new.len() as i64)
}

async fn requeue(tx: &mut Tx, hook: HookId, deliveries: &[FinishedDelivery], now_us: i64) -> Result<i64, DbError> {
    let mut query = Query::new(REQUEUE);
    query.bind_list(deliveries.iter().map(|delivery| delivery.id)).push(" RETURNING id, repository_id, source");
    let requeued: Vec<QueueRow> = tx.all(query.sql(), query.args()).await?;
    let mut queues = BTreeMap::new();
    for row in &requeued {
        let repository = RepositoryId(row.repository_id);
        *queues.entry(QueueKey { hook, repository, source: row.source, delivery_id: 0 }).or_default() += 1;
    }
    queues::add_waiting(tx, &queues, now_us).await?;
    Ok(requeued.len() as i64)
}
