//! Deletes deliveries and events that are too old, deliveries beyond a hook's limit, and the
//! webhooks of deleted repositories and organizations.

use ferrite_db::args;
use ferrite_db::{Db, DbError, Tx};
use ferrite_proto::id::{HookId, RepositoryId};
use sqlx_macros::FromRow;

use super::hooks::lock_counts;
use super::queues;
use super::removal::{self, Deliveries, MAX_BATCH_DELIVERIES, MAX_BATCH_ROWS};
use crate::model::Owner;

/// Hooks per query.
const MAX_HOOKS: i64 = 100;

/// Costs one index lookup per hook, however many deliveries it has.
const HOOKS: &str = "WITH RECURSIVE found (id) AS (SELECT MIN(hook_id) FROM deliveries WHERE hook_id > $1 \
     UNION ALL SELECT (SELECT MIN(d.hook_id) FROM deliveries d WHERE d.hook_id > found.id) FROM found WHERE found.id IS NOT NULL) \
     SELECT f.id, h.id IS NOT NULL AS is_there FROM (SELECT id FROM found WHERE id IS NOT NULL LIMIT $2) f \
     LEFT JOIN hooks h ON h.id = f.id ORDER BY f.id";
const OLD: &str = "SELECT id, repository_id FROM deliveries WHERE hook_id = $1 \
     AND status >= 2 AND (finished_us < $2 OR id <= (SELECT id FROM deliveries WHERE hook_id = $1 AND status >= 2 \
     ORDER BY id DESC LIMIT 1 OFFSET $3)) ORDER BY id LIMIT $4";
const ALL: &str = "SELECT id, repository_id FROM deliveries WHERE hook_id = $1 ORDER BY id LIMIT $2";
const OLD_EVENTS: &str = "SELECT e.id, e.repository_id FROM events e WHERE e.created_us < $1 \
     AND e.is_dispatched AND NOT e.is_in_feed AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.event_id = e.id) \
     ORDER BY e.created_us LIMIT $2";

/// Waits for the locks of earlier writers, whose webhooks are then deleted. Later writers see the
/// mark.
const MARK_DELETED: &str = "INSERT INTO hook_repositories (repository_id, is_deleted) VALUES ($1, TRUE) \
     ON CONFLICT (repository_id) DO UPDATE SET is_deleted = TRUE";
const MARK_ORGANIZATION_DELETED: &str = "INSERT INTO deleted_organizations (organization_id) VALUES ($1) \
     ON CONFLICT (organization_id) DO NOTHING";
const DELETE_HOOKS: &str = "DELETE FROM hooks WHERE owner_kind = $1 AND owner_id = $2 RETURNING id";

#[derive(Clone, Copy, Debug, PartialEq, Eq, FromRow)]
pub(crate) struct HookWithDeliveries {
    pub(crate) id: i64,
    /// False if the hook was deleted.
    pub(crate) is_there: bool,
}

/// Returns hooks that have deliveries, by id, starting above `after`.
pub(crate) async fn hooks_with_deliveries(db: &Db, after: i64) -> Result<Vec<HookWithDeliveries>, DbError> {
    db.all(HOOKS, &args![after, MAX_HOOKS]).await
}

/// Deletes a batch of a hook's finished deliveries: those that ended before `before_us` and those
/// beyond the `count` newest. Deletes every delivery of a deleted hook. Returns whether there may
/// be more.
pub(crate) async fn deliveries(
    db: &Db,
    hook: &HookWithDeliveries,
    before_us: i64,
    count: i64,
) -> Result<bool, DbError> {
    let limit = MAX_BATCH_DELIVERIES;
    let (found, which) = if hook.is_there {
        (removal::candidates(db, OLD, &args![hook.id, before_us, count], limit).await?, Deliveries::Finished)
    } else {
        (removal::candidates(db, ALL, &args![hook.id], limit).await?, Deliveries::All)
    };
    removal::deliveries(db, &found, which).await?;
    Ok(found.len() as i64 == limit)
}

/// Deletes a batch of events received before `before_us` that neither a delivery nor a feed needs.
/// Returns whether there may be more.
pub(crate) async fn events(db: &Db, before_us: i64) -> Result<bool, DbError> {
    let found = removal::candidates(db, OLD_EVENTS, &args![before_us], MAX_BATCH_ROWS).await?;
    removal::events(db, &found).await?;
    Ok(found.len() as i64 == MAX_BATCH_ROWS)
}

/// Deletes the webhooks of a deleted repository and cancels their waiting deliveries. Marks the
/// repository as deleted for good, because ids are never reused. Returns the number of deleted
/// webhooks, which the limit per owner bounds.
pub(crate) async fn repository(tx: &mut Tx, repository: RepositoryId, now_us: i64) -> Result<usize, DbError> {
    tx.execute(MARK_DELETED, &args![repository]).await?;
    hooks_of(tx, Owner::Repository(repository), now_us).await
}

/// As [`repository`], for a deleted organization.
pub(crate) async fn organization(tx: &mut Tx, id: i64, now_us: i64) -> Result<usize, DbError> {
    // Waits for earlier writers. Later ones see the mark.
    lock_counts(tx).await?;
    tx.execute(MARK_ORGANIZATION_DELETED, &args![id]).await?;
    hooks_of(tx, Owner::Organization(id), now_us).await
}

async fn hooks_of(tx: &mut Tx, owner: Owner, now_us: i64) -> Result<usize, DbError> {
    let mut hooks: Vec<(i64,)> = tx.all(DELETE_HOOKS, &args![owner.kind(), owner.id()]).await?;
    hooks.sort_unstable();
    for (id,) in &hooks {
        queues::cancel(tx, HookId(*id), now_us).await?;
    }
    Ok(hooks.len())
}
