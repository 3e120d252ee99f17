//! The SQL that claims events of `outbox` and `outbox_lanes` for delivery and records deliveries.
//!
//! A lane is the queue of one subscriber and repository. Its row counts the waiting events and says
//! when the lane is due. A claim finds lanes by an index on that time, then takes the first events
//! of each. So a claim costs the same however many events wait, and the order within a repository
//! holds because a lane has one claim at a time. A lane is deleted with its last event.
//!
//! `append` and `settle_and_claim` update the count in the lane's row, which both lock. A claim has
//! a random id: outcomes recorded after the claim was replaced have no effect.

use std::collections::BTreeMap;
use std::sync::Arc;

use ferrite_db::args;
use ferrite_db::{Db, DbError, Query, Value};

/// Maximum number of events, and of lanes, per claim and delivery.
pub(super) const MAX_CLAIM_EVENTS: i64 = 64;

/// Checks whether an event still waits for some subscribers.
const WAITS: &str = "SELECT id FROM outbox WHERE delivered_us IS NULL AND event_id = ";
/// Checks whether a lane is due. A read, because an idle poll must not occupy SQLite's single
/// writer.
const IS_DUE: &str =
    "SELECT repository_id FROM outbox_lanes WHERE subscriber = $1 AND due_us <= $2 AND waiting_count > 0 LIMIT 1";

// Arguments of the statements below: $1 subscriber, $2 id of the new claim, $3 now, $4 end of the
// claim, $5 maximum number of events, and from $6 the settled lanes, with the fields of
// `SettledLane` in order.
const SETTLED: &str = "WITH settled (repository, claim, delivered, first_id, last_id, due_us, attempts) AS (VALUES ";
/// PostgreSQL uses the index for an array, but would read all lanes for a join. A lane without
/// waiting events is due at 0: the next claim finds and deletes it.
const SETTLE_LANES: &str = "UPDATE outbox_lanes SET waiting_count = outbox_lanes.waiting_count - s.delivered, claim_id = 0, attempts = s.attempts, \
     due_us = CASE WHEN outbox_lanes.waiting_count <= s.delivered THEN 0 ELSE s.due_us END, \
     delivered_id = CASE WHEN s.delivered > 0 THEN s.last_id ELSE outbox_lanes.delivered_id END \
     FROM settled s WHERE outbox_lanes.subscriber = $1 AND outbox_lanes.repository_id = s.repository AND outbox_lanes.claim_id = s.claim \
     AND outbox_lanes.repository_id = ANY (ARRAY(SELECT repository FROM settled))";
/// Marks the rows of the lanes that the first part returned, so none of a lane with another claim.
const SETTLE_ROWS: &str = " RETURNING outbox_lanes.repository_id, s.first_id, s.last_id) \
     UPDATE outbox SET delivered_us = $3 FROM lanes l WHERE outbox.subscriber = $1 \
     AND outbox.repository_id = l.repository_id AND outbox.id BETWEEN l.first_id AND l.last_id AND outbox.delivered_us IS NULL";
/// Locks all lanes in the same order before settling any, so that two relays do not deadlock.
const LOCK_LANES: &str = "SELECT repository_id FROM outbox_lanes WHERE subscriber = $1 \
     AND repository_id = ANY (ARRAY(SELECT repository FROM settled)) ORDER BY repository_id FOR UPDATE";

const CLAIM_ARGS: usize = 5;
const DELETE_EMPTY: &str = "DELETE FROM outbox_lanes WHERE subscriber = $1 AND due_us = 0 AND waiting_count <= 0";
const CLAIM_SQLITE: &str = "UPDATE outbox_lanes SET due_us = $4, claim_id = $2 WHERE subscriber = $1 AND repository_id IN (\
     SELECT repository_id FROM outbox_lanes WHERE subscriber = $1 AND due_us <= $3 AND waiting_count > 0 ORDER BY due_us LIMIT $5)";
/// Events of the new claim: from each lane as many as fit the limit, at least one.
const CLAIMED_SQLITE: &str = "SELECT l.repository_id, l.attempts, o.id, o.event_id, o.payload FROM outbox_lanes l LEFT JOIN outbox o \
     ON o.id IN (SELECT w.id FROM outbox w WHERE w.subscriber = l.subscriber AND w.repository_id = l.repository_id \
     AND w.delivered_us IS NULL AND w.id > l.delivered_id ORDER BY w.id LIMIT \
     (SELECT $5 / COUNT(*) FROM outbox_lanes WHERE subscriber = $1 AND due_us = $4 AND claim_id = $2)) \
     WHERE l.subscriber = $1 AND l.due_us = $4 AND l.claim_id = $2";
/// SQLite's three statements in one. Skips lanes that another transaction has locked: its process
/// wakes its relay after the commit.
const CLAIM_POSTGRES: &str = "WITH empty AS (DELETE FROM outbox_lanes WHERE subscriber = $1 AND repository_id = ANY (ARRAY(\
     SELECT repository_id FROM outbox_lanes WHERE subscriber = $1 AND due_us = 0 AND waiting_count <= 0 FOR UPDATE SKIP LOCKED))), \
     due AS (SELECT repository_id FROM outbox_lanes WHERE subscriber = $1 AND due_us <= $3 AND waiting_count > 0 \
     ORDER BY due_us LIMIT $5 FOR UPDATE SKIP LOCKED), \
     claimed AS (UPDATE outbox_lanes l SET due_us = $4, claim_id = $2 \
     WHERE l.subscriber = $1 AND l.repository_id = ANY (ARRAY(SELECT repository_id FROM due)) RETURNING l.repository_id, l.attempts, l.delivered_id) \
     SELECT c.repository_id, c.attempts, o.id, o.event_id, o.payload FROM claimed c LEFT JOIN LATERAL (\
     SELECT w.id, w.event_id, w.payload FROM outbox w WHERE w.subscriber = $1 AND w.repository_id = c.repository_id \
     AND w.delivered_us IS NULL AND w.id > c.delivered_id \
     ORDER BY w.id LIMIT (SELECT $5 / GREATEST(COUNT(*), 1) FROM claimed)) o ON TRUE";

#[derive(Clone, Debug)]
pub(super) struct OutboxRow {
    pub(super) id: i64,
    pub(super) event_id: String,
    pub(super) payload: Vec<u8>,
}

/// A claimed lane with its first events, in order.
#[derive(Clone, Debug)]
pub struct Lane {
    pub(super) repository_id: i64,
    pub(super) claim_id: i64,
    /// Failed attempts to deliver the first event.
    pub(super) attempts: i64,
    /// Empty if the events are not visible yet, or were deleted by hand.
    pub(super) rows: Vec<OutboxRow>,
}

/// The lanes and events to claim.
#[derive(Clone, Copy, Debug)]
pub struct ClaimRequest {
    claim_id: i64,
    now_us: i64,
    until_us: i64,
    max_events: i64,
}

/// A claimed lane after the attempt to deliver its events.
#[derive(Clone, Copy, Debug)]
struct SettledLane {
    repository_id: i64,
    claim_id: i64,
    delivered: i64,
    first_id: i64,
    last_id: i64,
    due_us: i64,
    attempts: i64,
}

/// Outcomes of the deliveries of claimed lanes, to be recorded.
#[derive(Clone, Debug, Default)]
pub struct Settlement {
    lanes: Vec<SettledLane>,
}

#[derive(sqlx_macros::FromRow)]
struct ClaimedRow {
    repository_id: i64,
    attempts: i64,
    id: Option<i64>,
    event_id: Option<String>,
    payload: Option<Vec<u8>>,
}

impl ClaimRequest {
    /// Claims at most [`MAX_CLAIM_EVENTS`] events until `until_us`, with a new id.
    #[must_use]
    pub fn new(now_us: i64, until_us: i64) -> Self {
        Self { claim_id: rand::random(), now_us, until_us, max_events: MAX_CLAIM_EVENTS }
    }

    /// Claims nothing: for a settlement alone.
    #[must_use]
    pub fn nothing(now_us: i64) -> Self {
        Self { max_events: 0, ..Self::new(now_us, now_us) }
    }
}

impl Settlement {
    /// Adds a lane whose claimed events were delivered. Further events of the lane are due at once.
    pub fn delivered(&mut self, lane: &Lane, now_us: i64) {
        let (Some(first), Some(last)) = (lane.rows.first(), lane.rows.last()) else { return };
        self.lanes.push(SettledLane {
            repository_id: lane.repository_id,
            claim_id: lane.claim_id,
            delivered: lane.rows.len() as i64,
            first_id: first.id,
            last_id: last.id,
            due_us: now_us,
            attempts: 0,
        });
    }

    /// Adds a lane that is due again at `due_us`, with this number of failed attempts.
    pub(super) fn postponed(&mut self, lane: &Lane, due_us: i64, attempts: i64) {
        let Lane { repository_id, claim_id, .. } = *lane;
        self.lanes.push(SettledLane {
            repository_id,
            claim_id,
            delivered: 0,
            first_id: 1,
            last_id: 0,
            due_us,
            attempts,
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.lanes.len()
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.lanes.extend(other.lanes);
    }

    /// Removes and returns the outcomes of one repository.
    pub(super) fn take_repository(&mut self, repository_id: i64) -> Self {
        Self { lanes: self.lanes.extract_if(.., |lane| lane.repository_id == repository_id).collect() }
    }

    /// Returns the statements that record this settlement, and appends their arguments to the five
    /// in `args`.
    pub(super) fn statements(&self, db: &Db, args: &mut Vec<Value>) -> Vec<String> {
        if self.lanes.is_empty() {
            return Vec::new();
        }
        // Each number of lanes needs its own statement, so round up to keep the prepared statements
        // few.
        let count = self.lanes.len().next_power_of_two();
        let lanes = self.lanes.iter().chain(std::iter::repeat(&SettledLane::NONE)).take(count);
        let mut fields = Vec::with_capacity(count);
        for lane in lanes {
            fields.push(args.len() + 1);
            args.extend(lane.values());
        }
        if db.pick(false, true) {
            let is_single = self.lanes.iter().all(|lane| lane.first_id == lane.last_id);
            return fields.into_iter().flat_map(|first| settle_sqlite(first, is_single)).collect();
        }
        let lanes: Vec<_> = fields.into_iter().map(|first| placeholders(first..first + SettledLane::FIELDS)).collect();
        let settled = format!("{SETTLED}{})", lanes.join(", "));
        let settle = format!("{settled}, lanes AS ({SETTLE_LANES}{SETTLE_ROWS}");
        let lock = format!("{settled} {LOCK_LANES}");
        if self.lanes.len() > 1 { vec![lock, settle] } else { vec![settle] }
    }
}

impl SettledLane {
    const FIELDS: usize = 7;
    /// A placeholder for a lane that does not exist.
    const NONE: Self =
        Self { repository_id: -1, claim_id: -1, delivered: 0, first_id: 0, last_id: 0, due_us: 0, attempts: 0 };

    fn values(&self) -> [Value; Self::FIELDS] {
        let Self { repository_id, claim_id, delivered, first_id, last_id, due_us, attempts } = *self;
        [repository_id, claim_id, delivered, first_id, last_id, due_us, attempts].map(Value::from)
    }
}

/// Returns the statements for SQLite that settle one lane, whose fields are the arguments from
/// `first` on. They find rows only by keys: an update that changes the index it uses first collects
/// the rows in a temporary table, which costs more than the rest. So the row of a single event
/// (`is_single`) is found by id.
fn settle_sqlite(first: usize, is_single: bool) -> [String; 2] {
    let [repository, claim, delivered, first_id, last_id, due_us, attempts] =
        std::array::from_fn(|field| format!("${}", first + field));
    let lane = format!("subscriber = $1 AND repository_id = {repository} AND claim_id = {claim}");
    let rows = if is_single { format!("id = {first_id}") } else { format!("id BETWEEN {first_id} AND {last_id}") };
    [
        format!(
            "UPDATE outbox SET delivered_us = $3 WHERE {rows} AND subscriber = $1 AND repository_id = {repository} \
             AND delivered_us IS NULL AND EXISTS (SELECT 1 FROM outbox_lanes WHERE {lane})"
        ),
        format!(
            "UPDATE outbox_lanes SET waiting_count = waiting_count - {delivered}, claim_id = 0, attempts = {attempts}, \
             due_us = CASE WHEN waiting_count <= {delivered} THEN 0 ELSE {due_us} END, \
             delivered_id = CASE WHEN {delivered} > 0 THEN {last_id} ELSE delivered_id END WHERE {lane}"
        ),
    ]
}

fn placeholders(numbers: std::ops::Range<usize>) -> String {
    let names: Vec<_> = numbers.map(|number| format!("${number}")).collect();
    format!("({})", names.join(", "))
}

/// Whether an event is not yet marked as delivered to each of `subscribers`.
pub(super) async fn is_waiting(db: &Db, event_id: &str, subscribers: &[Arc<str>]) -> Result<bool, DbError> {
    let mut query = Query::new(WAITS);
    query.bind(event_id).push(" AND subscriber IN ").bind_list(subscribers.iter().map(|name| &**name));
    query.push(" LIMIT 1");
    Ok(db.optional::<(i64,)>(query.sql(), query.args()).await?.is_some())
}

/// Claims lanes that are due, if any. They are due again when the claim ends.
///
/// Claims and settlements need not survive a crash of the machine: the events are then delivered
/// again and applied once.
///
/// # Errors
/// If the database fails.
pub async fn claim(db: &Db, subscriber: &str, request: &ClaimRequest) -> Result<Vec<Lane>, DbError> {
    if request.max_events == 0 || db.optional::<(i64,)>(IS_DUE, &args![subscriber, request.now_us]).await?.is_none() {
        return Ok(Vec::new());
    }
    settle_and_claim(db, subscriber, None, request).await
}

/// Records the outcome of a claim and claims the next lanes in one transaction. Has no effect on
/// lanes whose claim was replaced.
///
/// # Errors
/// If the database fails. Nothing has changed then.
pub async fn settle_and_claim(
    db: &Db,
    subscriber: &str,
    settlement: Option<&Settlement>,
    next: &ClaimRequest,
) -> Result<Vec<Lane>, DbError> {
    let mut args = args![subscriber, next.claim_id, next.now_us, next.until_us, next.max_events].to_vec();
    let settled = settlement.map_or_else(Vec::new, |settlement| settlement.statements(db, &mut args));
    let mut statements: Vec<_> = settled.iter().map(|sql| (sql.as_str(), args.len())).collect();
    statements.extend(claim_statements(db).iter().map(|sql| (*sql, CLAIM_ARGS)));
    Ok(by_lane(db.all_relaxed(&statements, &args).await?, next.claim_id))
}

pub(super) fn claim_statements(db: &Db) -> &'static [&'static str] {
    db.pick(&[CLAIM_POSTGRES], &[DELETE_EMPTY, CLAIM_SQLITE, CLAIMED_SQLITE])
}

fn by_lane(mut rows: Vec<ClaimedRow>, claim_id: i64) -> Vec<Lane> {
    rows.sort_unstable_by_key(|row| row.id);
    let mut lanes: BTreeMap<i64, Lane> = BTreeMap::new();
    for ClaimedRow { repository_id, attempts, id, event_id, payload } in rows {
        let none = || Lane { repository_id, claim_id, attempts, rows: Vec::new() };
        let lane = lanes.entry(repository_id).or_insert_with(none);
        if let (Some(id), Some(event_id), Some(payload)) = (id, event_id, payload) {
            lane.rows.push(OutboxRow { id, event_id, payload });
        }
    }
    lanes.into_values().collect()
}
