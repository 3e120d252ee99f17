//! Redirects from a repository's former names, and its parent's fork count.
//!
//! A repository always takes precedence over a redirect from the same name. Such a hidden redirect
//! ends when that repository is deleted or renamed.

use ferrite_db::args;
use ferrite_db::{DbError, Tx};
use ferrite_proto::id::{RepositoryId, UserId};

use super::sql::{Locking, locking};

/// Former names kept per repository: the most recent ones.
const MAX_FORMER_NAMES: i64 = 100;
const ADD_REDIRECT: &str = "INSERT INTO repository_redirects (owner_id, name_key, repository_id, created_us) VALUES ($1, $2, $3, $4) \
     ON CONFLICT (owner_id, name_key) DO UPDATE SET repository_id = excluded.repository_id, created_us = excluded.created_us";
const REMOVE_REDIRECT: &str = "DELETE FROM repository_redirects WHERE owner_id = $1 AND name_key = $2";
const REMOVE_HIDDEN_REDIRECT: &str = "DELETE FROM repository_redirects WHERE (owner_id, name_key) IN \
     (SELECT owner_id, name_key FROM repositories WHERE id = $1)";
const PRUNE_REDIRECTS: &str = "DELETE FROM repository_redirects WHERE repository_id = $1 AND (owner_id, name_key) NOT IN \
     (SELECT owner_id, name_key FROM repository_redirects WHERE repository_id = $1 ORDER BY created_us DESC, owner_id, name_key LIMIT $2)";

const LOCK_PARENT: Locking = locking!(
    "SELECT id FROM repositories WHERE id = (SELECT parent_id FROM repositories WHERE id = $1)",
    " FOR NO KEY UPDATE"
);
const REMOVE_FORK: &str = "UPDATE repositories SET fork_count = fork_count - 1 WHERE id = \
     (SELECT parent_id FROM repositories WHERE id = $1 AND state = 'ready')";

/// Redirects the old name here and drops any redirect from the new name, in the transaction of the
/// change.
pub(super) async fn move_name(
    tx: &mut Tx,
    id: RepositoryId,
    former: (UserId, &str),
    present: (UserId, &str),
    now_us: i64,
) -> Result<(), DbError> {
    tx.execute(ADD_REDIRECT, &args![former.0, former.1, id, now_us]).await?;
    tx.execute(REMOVE_REDIRECT, &args![present.0, present.1]).await?;
    tx.execute(PRUNE_REDIRECTS, &args![id, MAX_FORMER_NAMES]).await.map(drop)
}

/// Removes a redirect hidden by the repository's name. Call it before deleting the repository.
pub(super) async fn release_name(tx: &mut Tx, id: RepositoryId) -> Result<(), DbError> {
    tx.execute(REMOVE_HIDDEN_REDIRECT, &args![id]).await.map(drop)
}

/// Locks the parent of a repository that is about to be deleted. Call it before locking the
/// repository itself.
pub(super) async fn lock_parent(tx: &mut Tx, id: RepositoryId) -> Result<(), DbError> {
    tx.optional::<(i64,)>(LOCK_PARENT.sql(tx), &args![id]).await.map(drop)
}

/// Decrements the fork count of the parent. The repository must be locked and about to be deleted.
pub(super) async fn remove_fork(tx: &mut Tx, id: RepositoryId) -> Result<(), DbError> {
    tx.execute(REMOVE_FORK, &args![id]).await.map(drop)
}
