//! Former names of repositories, which lead to them. A repository that bears such a name comes first in every lookup; the redirect that it
//! hides ends when that repository is deleted or gets another name.
//!
//! Not here: lookups by former and by present names (`repository_lookup`).

use ferrite_kit::args;
use ferrite_kit::db::{DbError, Tx};
use ferrite_proto::id::{RepositoryId, UserId};

/// Former names of one repository that are kept, the newest.
const MAX_FORMER_NAMES: i64 = 100;
const ADD: &str = "INSERT INTO repository_redirects (owner_id, name_key, repository_id, created_us) VALUES ($1, $2, $3, $4) \
     ON CONFLICT (owner_id, name_key) DO UPDATE SET repository_id = excluded.repository_id, created_us = excluded.created_us";
const REMOVE: &str = "DELETE FROM repository_redirects WHERE owner_id = $1 AND name_key = $2";
const REMOVE_HIDDEN: &str = "DELETE FROM repository_redirects WHERE (owner_id, name_key) IN \
     (SELECT owner_id, name_key FROM repositories WHERE id = $1)";
const PRUNE: &str = "DELETE FROM repository_redirects WHERE repository_id = $1 AND (owner_id, name_key) NOT IN \
     (SELECT owner_id, name_key FROM repository_redirects WHERE repository_id = $1 ORDER BY created_us DESC, owner_id, name_key LIMIT $2)";

/// Makes the name that a repository had until now lead to it, and the name that it bears from now on lead nowhere else, in the
/// transaction of the change.
pub(super) async fn move_name(
    tx: &mut Tx,
    id: RepositoryId,
    former: (UserId, &str),
    present: (UserId, &str),
    now_us: i64,
) -> Result<(), DbError> {
    tx.execute(ADD, &args![former.0, former.1, id, now_us]).await?;
    tx.execute(REMOVE, &args![present.0, present.1]).await?;
    tx.execute(PRUNE, &args![id, MAX_FORMER_NAMES]).await.map(drop)
}

/// Removes the redirect that the name of a repository hides, before the repository is deleted.
pub(super) async fn release_name(tx: &mut Tx, id: RepositoryId) -> Result<(), DbError> {
    tx.execute(REMOVE_HIDDEN, &args![id]).await.map(drop)
}
