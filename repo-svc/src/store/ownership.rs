//! Whether an account owns a repository or may act for an owner, by its roles of this moment: for what takes effect later than the
//! request that began it.
//!
//! Not here: the level of a caller on a repository (`access`), and the limits of tokens, which count when a request is made.

use ferrite_db::args;
use ferrite_db::{DbError, Tx};
use ferrite_proto::id::UserId;

use crate::access::Viewer;

/// A condition on a row `x` with the columns `repository_id` and `user_id`: the user is active and owns the repository, finished or not,
/// itself, as an owner of the organization, or as an administrator of the site.
macro_rules! owned_by_user {
    () => {
        "EXISTS (SELECT 1 FROM repositories o JOIN users s ON s.id = x.user_id WHERE o.id = x.repository_id AND s.is_active \
         AND (o.owner_id = s.id OR s.is_admin OR EXISTS (SELECT 1 FROM teams t JOIN team_members m ON m.team_id = t.id \
         WHERE t.organization_id = o.owner_id AND t.level = 4 AND m.user_id = s.id)))"
    };
}
pub(super) use owned_by_user;

const ACTS_FOR: &str = "SELECT s.id FROM users s JOIN users a ON a.id = $2 WHERE s.id = $1 AND s.is_active AND a.is_active \
     AND (s.id = a.id OR (s.is_admin AND $3) OR EXISTS (SELECT 1 FROM teams t JOIN team_members m ON m.team_id = t.id \
     WHERE t.organization_id = a.id AND t.level = 4 AND m.user_id = s.id))";
const IS_ADMIN: &str = "SELECT is_admin FROM users WHERE id = $1 AND is_active";

/// Returns whether a user may act for an account: it is the account or owns the organization. `as_administrator` admits administrators
/// of the site as well. False if one of the two is disabled.
pub(crate) async fn acts_for(
    tx: &mut Tx,
    user: UserId,
    account: UserId,
    as_administrator: bool,
) -> Result<bool, DbError> {
    let found: Option<(i64,)> = tx.optional(ACTS_FOR, &args![user, account, as_administrator]).await?;
    Ok(found.is_some())
}

/// Returns a user with all its roles, as the viewer that decides what it may do; `None` if it is disabled.
pub(crate) async fn viewer_of(tx: &mut Tx, user: UserId) -> Result<Option<Viewer>, DbError> {
    let found: Option<(bool,)> = tx.optional(IS_ADMIN, &args![user]).await?;
    Ok(found.map(|(is_admin,)| Viewer::account(user, is_admin)))
}
