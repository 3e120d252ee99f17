use ferrite_kit::args;
use ferrite_kit::db::{DbError, Tx};
use ferrite_proto::id::RepositoryId;

use super::sql::{Locking, locking};

const LOCK_PARENT: Locking = locking!(
    "SELECT id FROM repositories WHERE id = (SELECT parent_id FROM repositories WHERE id = $1)",
    " FOR NO KEY UPDATE"
);
const REMOVE_FORK: &str = "UPDATE repositories SET fork_count = fork_count - 1 WHERE id = \
     (SELECT parent_id FROM repositories WHERE id = $1 AND state = 'ready')";

/// Locks the parent of a repository that is going to be deleted, before that is locked.
pub(super) async fn lock_parent(tx: &mut Tx, id: RepositoryId) -> Result<(), DbError> {
    tx.optional::<(i64,)>(LOCK_PARENT.sql(tx), &args![id]).await.map(drop)
}

/// Takes a repository that is locked and going to be deleted out of the number of its parent's forks.
pub(super) async fn remove_fork(tx: &mut Tx, id: RepositoryId) -> Result<(), DbError> {
    tx.execute(REMOVE_FORK, &args![id]).await.map(drop)
}
