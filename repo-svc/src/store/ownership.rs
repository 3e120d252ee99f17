//! Whether an account owns a repository or can act for an owner right now. For things that take
//! effect after the request that started them, so token limits do not matter: they applied to that
//! request.

use ferrite_db::args;
use ferrite_db::{DbError, Tx};
use ferrite_proto::id::UserId;

use crate::access::Viewer;

macro_rules! is_right_of_user {
    ($teams:literal) => {
        concat!(
            "EXISTS (SELECT 1 FROM repositories o JOIN users s ON s.id = x.user_id WHERE o.id = x.repository_id AND s.is_active \
             AND (o.owner_id = s.id OR s.is_admin OR EXISTS (SELECT 1 FROM teams t JOIN team_members m ON m.team_id = t.id \
             WHERE t.organization_id = o.owner_id AND ",
            $teams,
            " AND m.user_id = s.id)))"
        )
    };
}
pub(super) use is_right_of_user;

/// A condition on a row `x` with the columns `repository_id` and `user_id`: the user is active and
/// owns the repository (finished or not), directly, through an organization, or as a site
/// administrator.
macro_rules! owned_by_user {
    () => {
        $crate::store::ownership::is_right_of_user!("t.level = 4")
    };
}
pub(super) use owned_by_user;

/// Like [`owned_by_user`], but for users who may create repositories for its owner.
macro_rules! made_by_user {
    () => {
        $crate::store::ownership::is_right_of_user!("(t.level = 4 OR t.can_create_repositories)")
    };
}
pub(super) use made_by_user;

macro_rules! acts_for {
    ($teams:literal) => {
        concat!(
            "SELECT s.id FROM users s JOIN users a ON a.id = $2 WHERE s.id = $1 AND s.is_active AND a.is_active \
             AND (s.id = a.id OR (s.is_admin AND $3) OR EXISTS (SELECT 1 FROM teams t JOIN team_members m ON m.team_id = t.id \
             WHERE t.organization_id = a.id AND ",
            $teams,
            " AND m.user_id = s.id))"
        )
    };
}
const ACTS_FOR: &str = acts_for!("t.level = 4");
const CREATES_FOR: &str = acts_for!("(t.level = 4 OR t.can_create_repositories)");
const IS_ADMIN: &str = "SELECT is_admin FROM users WHERE id = $1 AND is_active";

/// Whether a user can act for an account: the user is the account or owns the organization, or,
/// with `as_administrator`, is a site administrator. False if either is disabled.
pub(crate) async fn acts_for(
    tx: &mut Tx,
    user: UserId,
    account: UserId,
    as_administrator: bool,
) -> Result<bool, DbError> {
    let found: Option<(i64,)> = tx.optional(ACTS_FOR, &args![user, account, as_administrator]).await?;
    Ok(found.is_some())
}

/// Like [`acts_for`], but whether the user may create repositories for the account.
pub(crate) async fn creates_for(
    tx: &mut Tx,
    user: UserId,
    account: UserId,
    as_administrator: bool,
) -> Result<bool, DbError> {
    let found: Option<(i64,)> = tx.optional(CREATES_FOR, &args![user, account, as_administrator]).await?;
    Ok(found.is_some())
}

/// Returns a user with all roles, as the viewer for access decisions; `None` if disabled.
pub(crate) async fn viewer_of(tx: &mut Tx, user: UserId) -> Result<Option<Viewer>, DbError> {
    let found: Option<(bool,)> = tx.optional(IS_ADMIN, &args![user]).await?;
    Ok(found.map(|(is_admin,)| Viewer::account(user, is_admin)))
}
