use std::collections::HashSet;

use ferrite_db::args;
use ferrite_db::{DbError, Query, Tx};
use ferrite_proto::events::Event;

use super::event::kind;

/// Records in the transaction that `event` is applied. Returns whether this is the first time; if not, the caller must not apply it
/// again.
///
/// # Errors
/// When the database fails.
pub async fn first_seen(tx: &mut Tx, event: &Event, now_us: i64) -> Result<bool, DbError> {
    Ok(!record(tx, std::slice::from_ref(event), now_us).await?.is_empty())
}

/// Records events by one statement, as [`first_seen`] does for one. Returns the ids of those that are seen for the first time.
pub(super) async fn record(tx: &mut Tx, events: &[Event], now_us: i64) -> Result<HashSet<String>, DbError> {
    let Some(last) = events.last() else { return Ok(HashSet::new()) };
    let mut query = Query::new("INSERT INTO inbox (event_id, repository_id, kind, received_us) VALUES ");
    // The last one is repeated, without effect, until their number is a power of two: few texts stand for all numbers.
    let repeated = std::iter::repeat_n(last, events.len().next_power_of_two() - events.len());
    let row = |event: &Event| args![&event.event_id, event.repository_id, kind(event), now_us];
    query.bind_rows(events.iter().chain(repeated).map(row)).push(" ON CONFLICT DO NOTHING");
    if let [event] = events {
        // The number of rows tells as much, and SQLite collects returned rows in a temporary table first.
        let is_new = tx.execute(query.sql(), query.args()).await? > 0;
        return Ok(is_new.then(|| event.event_id.clone()).into_iter().collect());
    }
    query.push(" RETURNING event_id");
    let new: Vec<(String,)> = tx.all(query.sql(), query.args()).await?;
    Ok(new.into_iter().map(|(event_id,)| event_id).collect())
}
