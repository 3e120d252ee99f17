//! Removes events and deliveries and subtracts their bytes from their repositories. Works in
//! batches, so that no writer waits long.
//!
//! Candidates are found outside of a transaction. The transaction locks their repositories and
//! removes those that may still go.

use std::collections::{BTreeMap, BTreeSet};

use ferrite_db::args;
use ferrite_db::{Db, DbError, Query, Tx, Value};
use sqlx_macros::FromRow;

use super::kept_bytes;

/// Rows that one transaction changes or deletes.
pub(super) const MAX_BATCH_ROWS: i64 = 200;
/// Deliveries that one transaction deletes. Each has attempts and may be the last to need its
/// event.
pub(super) const MAX_BATCH_DELIVERIES: i64 = 50;

const LEAVE_FEED: &str = "UPDATE events SET is_in_feed = FALSE WHERE id IN ";
/// Deletes only what neither the dispatcher nor a feed nor a delivery needs.
const DELETE_EVENTS: &str = "DELETE FROM events WHERE is_dispatched AND NOT is_in_feed \
     AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.event_id = events.id) AND id IN ";
const DELETE_DELIVERIES: &str = "DELETE FROM deliveries WHERE id IN ";
/// Keeps a delivery that was queued again since: after waiting for its lock, the database reads its
/// status again.
const IS_FINISHED: &str = " AND status >= 2";
const RETURN_EVENTS: &str = " RETURNING repository_id, bytes";
const RETURN_DELIVERIES: &str = " RETURNING repository_id, bytes, event_id";

/// A row that may be removed.
#[derive(Clone, Copy, Debug, FromRow)]
pub(super) struct Candidate {
    pub(super) id: i64,
    pub(super) repository_id: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deliveries {
    Finished,
    All,
}

/// Finds rows with a statement that takes `limit` as its last argument.
pub(super) async fn candidates(
    db: &Db,
    sql: &'static str,
    args: &[Value],
    limit: i64,
) -> Result<Vec<Candidate>, DbError> {
    db.all(sql, &[args, &args![limit]].concat()).await
}

/// Removes events from their feeds, and deletes those that nothing else needs.
pub(super) async fn leave_feeds(db: &Db, events: &[Candidate]) -> Result<(), DbError> {
    if events.is_empty() {
        return Ok(());
    }
    let mut tx = begin(db, events).await?;
    let mut query = Query::new(LEAVE_FEED);
    query.bind_list(events.iter().map(|event| event.id));
    tx.execute(query.sql(), query.args()).await?;
    let removed = delete_events(&mut tx, events.iter().map(|event| event.id)).await?;
    kept_bytes::subtract(&mut tx, &removed).await?;
    tx.commit().await
}

/// Deletes the events that nothing needs.
pub(super) async fn events(db: &Db, events: &[Candidate]) -> Result<(), DbError> {
    if events.is_empty() {
        return Ok(());
    }
    let mut tx = begin(db, events).await?;
    let removed = delete_events(&mut tx, events.iter().map(|event| event.id)).await?;
    kept_bytes::subtract(&mut tx, &removed).await?;
    tx.commit().await
}

/// Deletes deliveries with their attempts, and those of their events that nothing else needs.
pub(super) async fn deliveries(db: &Db, deliveries: &[Candidate], which: Deliveries) -> Result<(), DbError> {
    if deliveries.is_empty() {
        return Ok(());
    }
    let mut tx = begin(db, deliveries).await?;
    let mut query = Query::new(DELETE_DELIVERIES);
    query.bind_list(deliveries.iter().map(|delivery| delivery.id));
    if which == Deliveries::Finished {
        query.push(IS_FINISHED);
    }
    query.push(RETURN_DELIVERIES);
    let rows: Vec<(i64, i64, i64)> = tx.all(query.sql(), query.args()).await?;
    let freed: BTreeSet<i64> = rows.iter().map(|(.., event)| *event).collect();
    let mut removed = delete_events(&mut tx, freed).await?;
    for (repository, bytes, _) in rows {
        *removed.entry(repository).or_default() += bytes;
    }
    kept_bytes::subtract(&mut tx, &removed).await?;
    tx.commit().await
}

/// Begins a transaction and locks the repositories of the rows. A relaxed commit is enough: after a
/// crash of the machine, the removal is repeated.
async fn begin(db: &Db, rows: &[Candidate]) -> Result<Tx, DbError> {
    let mut tx = db.begin_relaxed().await?;
    kept_bytes::lock(&mut tx, &rows.iter().map(|row| row.repository_id).collect()).await?;
    Ok(tx)
}

/// Deletes the events that nothing needs. Returns their bytes by repository.
pub(super) async fn delete_events(
    tx: &mut Tx,
    ids: impl IntoIterator<Item = i64>,
) -> Result<BTreeMap<i64, i64>, DbError> {
    let mut query = Query::new(DELETE_EVENTS);
    query.bind_list(ids).push(RETURN_EVENTS);
    let rows: Vec<(i64, i64)> = tx.all(query.sql(), query.args()).await?;
    let mut removed = BTreeMap::new();
    for (repository, bytes) in rows {
        *removed.entry(repository).or_default() += bytes;
    }
    Ok(removed)
}
