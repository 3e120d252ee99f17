//! The SQL that writes events to `outbox` and `outbox_lanes`, in the transaction of the change that
//! they report.
//!
//! If no other event of the lane waits, the writer may claim the lane for the relay of its own
//! process, which then delivers the event without claiming it.

use ferrite_db::{DbError, Query, Tx};
use ferrite_proto::events::Event;
use prost::Message;

use super::event::kind;
use super::rows::{Lane, OutboxRow};

const ADD_LANES: &str = "INSERT INTO outbox_lanes \
     (subscriber, repository_id, waiting_count, due_us, claim_id, attempts, delivered_id) VALUES ";
/// An empty lane is about to be deleted; it counts as new.
const COUNT_LANES: &str = " ON CONFLICT (subscriber, repository_id) DO UPDATE SET waiting_count = outbox_lanes.waiting_count + 1, \
     due_us = CASE WHEN outbox_lanes.waiting_count <= 0 THEN excluded.due_us ELSE outbox_lanes.due_us END, \
     claim_id = CASE WHEN outbox_lanes.waiting_count <= 0 THEN excluded.claim_id ELSE outbox_lanes.claim_id END";
const ADD_ROWS: &str = "INSERT INTO outbox (event_id, subscriber, repository_id, kind, payload, created_us) ";
/// Wraps [`ADD_ROWS`] to return [`AppendedRow`]s.
const APPENDED_POSTGRES: [&str; 2] = [
    ", added AS (",
    " RETURNING subscriber, id) \
     SELECT added.subscriber, added.id, lanes.claim_id FROM added JOIN lanes ON lanes.subscriber = added.subscriber",
];
/// The same for the rows of the previous statement, whose ids are consecutive. `RETURNING` would
/// collect them in a temporary table.
const APPENDED_SQLITE: &str = "; SELECT o.subscriber, o.id, l.claim_id FROM outbox o CROSS JOIN outbox_lanes l \
     ON l.subscriber = o.subscriber AND l.repository_id = o.repository_id WHERE o.id > last_insert_rowid() - ";

/// A claim of the lanes of one event until `until_us`.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaneClaim<'a> {
    pub(super) claim_id: i64,
    pub(super) until_us: i64,
    pub(super) subscribers: &'a [&'a str],
}

impl LaneClaim<'_> {
    const NONE: Self = Self { claim_id: 0, until_us: 0, subscribers: &[] };
}

/// A written row of an event, with the claim of its lane.
#[derive(Debug, sqlx_macros::FromRow)]
struct AppendedRow {
    subscriber: String,
    id: i64,
    claim_id: i64,
}

/// Writes `event` for each of `subscribers`, in the transaction of the change that it reports.
///
/// Transactions that append events of the same repository should exclude each other first, by a row
/// lock or a lock in memory. Otherwise the order of their events is that of these calls.
///
/// # Errors
/// If the database fails, at the latest at the commit.
pub async fn append(tx: &mut Tx, event: &Event, subscribers: &[&str], now_us: i64) -> Result<(), DbError> {
    if subscribers.is_empty() {
        return Ok(());
    }
    let query = if tx.pick(true, false) {
        postgres(event, subscribers, now_us, LaneClaim::NONE, "", "")
    } else {
        sqlite(event, subscribers, now_us, LaneClaim::NONE)
    };
    tx.execute_later(query.sql(), query.args()).await
}

/// Commits `tx`. Its last statement writes `event` for each of `subscribers` and claims lanes.
/// Returns the claimed lanes with the event, by subscriber. After an error the transaction may have
/// been committed or not.
pub(super) async fn append_and_commit(
    tx: Tx,
    event: &Event,
    subscribers: &[&str],
    now_us: i64,
    claim: LaneClaim<'_>,
) -> Result<Vec<(String, Lane)>, DbError> {
    let query = if tx.pick(true, false) {
        postgres(event, subscribers, now_us, claim, APPENDED_POSTGRES[0], APPENDED_POSTGRES[1])
    } else {
        let mut query = sqlite(event, subscribers, now_us, claim);
        query.push(APPENDED_SQLITE).bind(subscribers.len() as i64);
        query
    };
    let rows: Vec<AppendedRow> = tx.commit_returning(query.sql(), query.args()).await?;
    let repository_id = event.repository_id;
    let lane = |row: AppendedRow| {
        let event = OutboxRow { id: row.id, event_id: event.event_id.clone(), payload: event.encode_to_vec() };
        (row.subscriber, Lane { repository_id, claim_id: row.claim_id, attempts: 0, rows: vec![event] })
    };
    Ok(rows.into_iter().filter(|row| row.claim_id == claim.claim_id).map(lane).collect())
}

/// Adds the lanes of an event. All transactions lock the lanes of a repository in the same order.
fn push_lanes(query: &mut Query, event: &Event, subscribers: &[&str], now_us: i64, claim: LaneClaim<'_>) {
    let mut subscribers = subscribers.to_vec();
    subscribers.sort_unstable();
    query.push(ADD_LANES);
    for (index, subscriber) in subscribers.iter().enumerate() {
        let is_claimed = claim.subscribers.contains(subscriber);
        let (due_us, claim_id) = if is_claimed { (claim.until_us, claim.claim_id) } else { (now_us, 0) };
        query.push(if index == 0 { "(" } else { ", (" }).bind(*subscriber).push(", ").bind(event.repository_id);
        query.push(", 1, ").bind(due_us).push(", ").bind(claim_id).push(", 0, 0)");
    }
    query.push(COUNT_LANES);
}

/// A single statement: a row gets its id while its lane is locked, so that ids of a lane are
/// committed in order. `before` and `after` wrap its second part.
fn postgres(
    event: &Event,
    subscribers: &[&str],
    now_us: i64,
    claim: LaneClaim<'_>,
    before: &'static str,
    after: &'static str,
) -> Query {
    let mut query = Query::new("WITH lanes AS (");
    push_lanes(&mut query, event, subscribers, now_us, claim);
    query.push(" RETURNING subscriber, claim_id) ").push(before).push(ADD_ROWS);
    query.push("SELECT ").bind(&event.event_id).push(", subscriber, ").bind(event.repository_id);
    query.push(", ").bind(kind(event)).push(", ").bind(event.encode_to_vec()).push(", ").bind(now_us);
    query.push(" FROM lanes").push(after);
    query
}

fn sqlite(event: &Event, subscribers: &[&str], now_us: i64, claim: LaneClaim<'_>) -> Query {
    let payload = event.encode_to_vec();
    let mut query = Query::default();
    push_lanes(&mut query, event, subscribers, now_us, claim);
    query.push("; ").push(ADD_ROWS).push("VALUES ");
    for (index, subscriber) in subscribers.iter().enumerate() {
        query.push(if index == 0 { "(" } else { ", (" }).bind(&event.event_id).push(", ").bind(*subscriber);
        query.push(", ").bind(event.repository_id).push(", ").bind(kind(event));
        query.push(", ").bind(payload.as_slice()).push(", ").bind(now_us).push(")");
    }
    query
}
