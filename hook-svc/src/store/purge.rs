//! The deletion of old deliveries and events, in batches.

use ferrite_kit::args;
use ferrite_kit::db::{Db, DbError, Value};
use sqlx::FromRow;

/// Rows that one transaction changes or deletes, so that no writer waits long for it.
pub(super) const MAX_BATCH_ROWS: i64 = 200;
/// Hooks that one look finds.
const MAX_HOOKS: i64 = 100;

/// Each hook costs one look into the index, however many deliveries it has.
const HOOKS: &str = "WITH RECURSIVE found (id) AS (SELECT MIN(hook_id) FROM deliveries WHERE hook_id > $1 \
     UNION ALL SELECT (SELECT MIN(d.hook_id) FROM deliveries d WHERE d.hook_id > found.id) FROM found WHERE found.id IS NOT NULL) \
     SELECT f.id, h.id IS NOT NULL AS is_there FROM (SELECT id FROM found WHERE id IS NOT NULL LIMIT $2) f \
     LEFT JOIN hooks h ON h.id = f.id ORDER BY f.id";
/// A delivery that is queued again meanwhile stays: its status is read again after the wait for its lock.
const DELETE_OLD: &str = "DELETE FROM deliveries WHERE status >= 2 AND id IN (SELECT id FROM deliveries WHERE hook_id = $1 \
     AND status >= 2 AND (finished_us < $2 OR id <= (SELECT id FROM deliveries WHERE hook_id = $1 AND status >= 2 \
     ORDER BY id DESC LIMIT 1 OFFSET $3)) ORDER BY id LIMIT $4) RETURNING id";
const DELETE_ALL: &str = "DELETE FROM deliveries WHERE id IN \
     (SELECT id FROM deliveries WHERE hook_id = $1 ORDER BY id LIMIT $2) RETURNING id";
const DELETE_EVENTS: &str = "DELETE FROM events WHERE id IN (SELECT e.id FROM events e WHERE e.created_us < $1 \
     AND e.is_dispatched AND NOT e.is_in_feed AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.event_id = e.id) \
     ORDER BY e.created_us LIMIT $2) RETURNING id";

/// A hook that has deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromRow)]
pub(crate) struct HookWithDeliveries {
    pub(crate) id: i64,
    /// False if the hook was deleted.
    pub(crate) is_there: bool,
}

/// Returns hooks with deliveries whose ids are above `after`, by id.
///
/// # Errors
/// When the database fails.
pub(crate) async fn hooks_with_deliveries(db: &Db, after: i64) -> Result<Vec<HookWithDeliveries>, DbError> {
    db.all(HOOKS, &args![after, MAX_HOOKS]).await
}

/// Deletes a batch of a hook's finished deliveries: those that ended before `before_us` and those beyond the `count` newest; of a
/// deleted hook all. Returns whether there may be more.
///
/// # Errors
/// When the database fails.
pub(crate) async fn deliveries(
    db: &Db,
    hook: &HookWithDeliveries,
    before_us: i64,
    count: i64,
) -> Result<bool, DbError> {
    if hook.is_there {
        batch(db, DELETE_OLD, &args![hook.id, before_us, count, MAX_BATCH_ROWS]).await
    } else {
        batch(db, DELETE_ALL, &args![hook.id, MAX_BATCH_ROWS]).await
    }
}

/// Deletes a batch of events of before `before_us` that neither a delivery nor the feed needs. Returns whether there may be more.
///
/// # Errors
/// When the database fails.
pub(crate) async fn events(db: &Db, before_us: i64) -> Result<bool, DbError> {
    batch(db, DELETE_EVENTS, &args![before_us, MAX_BATCH_ROWS]).await
}

/// Runs a statement that returns the ids of at most [`MAX_BATCH_ROWS`] rows. Returns whether there may be more.
pub(super) async fn batch(db: &Db, sql: &'static str, args: &[Value]) -> Result<bool, DbError> {
    let rows: Vec<(i64,)> = db.all_relaxed(&[(sql, args.len())], args).await?;
    Ok(rows.len() as i64 == MAX_BATCH_ROWS)
}
