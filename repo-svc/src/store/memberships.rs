use ferrite_kit::args;
use ferrite_kit::db::{DbError, Query, Tx};
use ferrite_kit::page::Page;
use ferrite_proto::id::UserId;

use super::OrganizationStore;
use super::accounts::UserRow;
use crate::RepoError;
use crate::model::User;

const COLUMNS: &str = "SELECT u.id, u.kind, u.name, u.full_name, u.email, u.is_admin";
const COUNT: &str = "SELECT COUNT(*)";
const FIND: &str = "SELECT b.is_public, CASE WHEN EXISTS (SELECT 1 FROM team_members m JOIN teams t ON t.id = m.team_id \
     WHERE t.organization_id = b.organization_id AND t.level = 4 AND m.user_id = b.user_id) THEN 1 ELSE 0 END AS is_owner \
     FROM memberships b WHERE b.organization_id = $1 AND b.user_id = $2";
const JOIN: &str = "INSERT INTO memberships (organization_id, user_id, is_public, created_us) VALUES ($1, $2, $3, $4) \
     ON CONFLICT DO NOTHING";
const SHOW: &str =
    "UPDATE memberships SET is_public = $3 WHERE organization_id = $1 AND user_id = $2 AND is_public <> $3";
const LEAVE_TEAMS: &str = "DELETE FROM team_members WHERE user_id = $2 \
     AND team_id IN (SELECT id FROM teams WHERE organization_id = $1)";
const LEAVE: &str = "DELETE FROM memberships WHERE organization_id = $1 AND user_id = $2";
const MAKE_OWNER: &str = "INSERT INTO team_members (team_id, user_id, created_us) \
     SELECT id, $2, $3 FROM teams WHERE organization_id = $1 AND level = 4 ON CONFLICT DO NOTHING";
const UNMAKE_OWNER: &str = "DELETE FROM team_members WHERE user_id = $2 \
     AND team_id IN (SELECT id FROM teams WHERE organization_id = $1 AND level = 4)";
const ANOTHER_OWNER: &str = "SELECT m.user_id FROM teams t JOIN team_members m ON m.team_id = t.id \
     WHERE t.organization_id = $1 AND t.level = 4 AND m.user_id <> $2 LIMIT 1";

/// What a user is to an organization it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Membership {
    /// Whether those who are not members may know of it.
    pub(crate) is_public: bool,
    /// Whether the user is in the team of owners.
    pub(crate) is_owner: bool,
}

#[derive(Debug, sqlx::FromRow)]
struct MembershipRow {
    is_public: bool,
    is_owner: i32,
}

impl From<MembershipRow> for Membership {
    fn from(row: MembershipRow) -> Self {
        Self { is_public: row.is_public, is_owner: row.is_owner == 1 }
    }
}

/// Members. What changes them in a transaction expects the organization to be locked there.
impl OrganizationStore {
    /// A page of the members of an organization, by id, and how many there are in all.
    pub(crate) async fn members(&self, id: UserId, only_public: bool, page: Page) -> Result<(Vec<User>, i64), DbError> {
        let filtered = |start: &'static str| {
            let mut query = Query::new(start);
            query.push(" FROM memberships b JOIN users u ON u.id = b.user_id WHERE b.organization_id = ").bind(id);
            if only_public {
                query.push(" AND b.is_public");
            }
            query
        };
        let mut rows = filtered(COLUMNS);
        rows.push(" ORDER BY u.id LIMIT ").bind(page.size()).push(" OFFSET ").bind(page.offset());
        let count = filtered(COUNT);
        let (total,): (i64,) = self.db.one(count.sql(), count.args()).await?;
        let rows: Vec<UserRow> = self.db.all(rows.sql(), rows.args()).await?;
        Ok((rows.into_iter().map(User::from).collect(), total))
    }

    /// What a user is to an organization, or `None` for one who is no member.
    pub(crate) async fn membership(&self, id: UserId, user: UserId) -> Result<Option<Membership>, DbError> {
        let row: Option<MembershipRow> = self.db.optional(FIND, &args![id, user]).await?;
        Ok(row.map(Membership::from))
    }

    /// The same, within a transaction.
    pub(crate) async fn membership_in(
        &self,
        tx: &mut Tx,
        id: UserId,
        user: UserId,
    ) -> Result<Option<Membership>, DbError> {
        let row: Option<MembershipRow> = tx.optional(FIND, &args![id, user]).await?;
        Ok(row.map(Membership::from))
    }

    /// Makes a user a member, which only members can see. `false` for one who is a member already.
    ///
    /// # Errors
    /// [`RepoError::UserNotFound`] when the user is gone.
    pub(crate) async fn join(&self, tx: &mut Tx, id: UserId, user: UserId, now_us: i64) -> Result<bool, RepoError> {
        Ok(tx.execute(JOIN, &args![id, user, false, now_us]).await.map_err(user_is_gone)? == 1)
    }

    /// Makes a member an owner.
    ///
    /// # Errors
    /// [`RepoError::UserNotFound`] when the user is gone.
    pub(crate) async fn make_owner(&self, tx: &mut Tx, id: UserId, user: UserId, now_us: i64) -> Result<(), RepoError> {
        tx.execute(MAKE_OWNER, &args![id, user, now_us]).await.map_err(user_is_gone)?;
        Ok(())
    }

    /// Makes an owner a member like others.
    ///
    /// # Errors
    /// [`RepoError::LastOwner`] when there is no other.
    pub(crate) async fn unmake_owner(&self, tx: &mut Tx, id: UserId, user: UserId) -> Result<(), RepoError> {
        self.keep_an_owner(tx, id, user).await?;
        tx.execute(UNMAKE_OWNER, &args![id, user]).await?;
        Ok(())
    }

    /// Refuses to go on when nobody but `user` owns the organization.
    ///
    /// # Errors
    /// [`RepoError::LastOwner`].
    pub(crate) async fn keep_an_owner(&self, tx: &mut Tx, id: UserId, user: UserId) -> Result<(), RepoError> {
        let another: Option<(i64,)> = tx.optional(ANOTHER_OWNER, &args![id, user]).await?;
        another.map(|_| ()).ok_or(RepoError::LastOwner)
    }

    /// Shows or hides a membership. `false` when it was so already.
    pub(crate) async fn show(&self, tx: &mut Tx, id: UserId, user: UserId, is_public: bool) -> Result<bool, DbError> {
        Ok(tx.execute(SHOW, &args![id, user, is_public]).await? == 1)
    }

    /// Takes a user out of an organization and all its teams. `false` for one who is no member.
    ///
    /// # Errors
    /// [`RepoError::LastOwner`] when no owner would be left.
    pub(crate) async fn leave(&self, tx: &mut Tx, id: UserId, user: UserId) -> Result<bool, RepoError> {
        let Some(membership) = self.membership_in(tx, id, user).await? else { return Ok(false) };
        if membership.is_owner {
            self.keep_an_owner(tx, id, user).await?;
        }
        tx.execute(LEAVE_TEAMS, &args![id, user]).await?;
        tx.execute(LEAVE, &args![id, user]).await?;
        Ok(true)
    }
}

/// With the organization locked, only the user of a row that refers to both can be missing.
fn user_is_gone(error: DbError) -> RepoError {
    if error.is_foreign_key() { RepoError::UserNotFound } else { error.into() }
}
