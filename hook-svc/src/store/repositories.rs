//! Repositories as webhooks know them: those that were deleted get no hooks.

use ferrite_db::args;
use ferrite_db::{DbError, Tx};
use ferrite_proto::id::{HookId, RepositoryId};

use super::queues;

/// The lock waits for earlier writers, whose webhooks are then deleted, and later writers find the mark.
const MARK_DELETED: &str = "INSERT INTO hook_repositories (repository_id, is_deleted) VALUES ($1, TRUE) \
     ON CONFLICT (repository_id) DO UPDATE SET is_deleted = TRUE";
const DELETE_HOOKS: &str = "DELETE FROM hooks WHERE owner_kind = 2 AND owner_id = $1 RETURNING id";

/// Deletes the webhooks of a deleted repository, cancels their deliveries that wait, and marks the repository as deleted for good, because
/// ids are never reused. Returns the number of deleted webhooks, which the limit of an owner bounds.
pub(crate) async fn purge(tx: &mut Tx, repository: RepositoryId, now_us: i64) -> Result<usize, DbError> {
    tx.execute(MARK_DELETED, &args![repository]).await?;
    let mut hooks: Vec<(i64,)> = tx.all(DELETE_HOOKS, &args![repository]).await?;
    hooks.sort_unstable();
    for (id,) in &hooks {
        queues::cancel(tx, HookId(*id), now_us).await?;
    }
    Ok(hooks.len())
}
