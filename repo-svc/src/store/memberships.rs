//! Members and owners of organizations.
//!
//! Not here: the organizations themselves (`organizations`), and members of teams (`team_members`).

use ferrite_kit::args;
use ferrite_kit::db::{DbError, Query, Tx};
use ferrite_kit::page::Page;
use ferrite_proto::id::UserId;

use super::organizations::OrganizationStore;
use super::sql::or_missing;
use crate::error::RepoError;
use crate::model::User;

const COLUMNS: &str = "SELECT u.id, u.kind, u.name, u.full_name, u.email, u.is_admin";
const COUNT: &str = "SELECT COUNT(*)";
const FIND: &str = "SELECT b.is_public, CASE WHEN EXISTS (SELECT 1 FROM team_members m JOIN teams t ON t.id = m.team_id \
     WHERE t.organization_id = b.organization_id AND t.level = 4 AND m.user_id = b.user_id) THEN 1 ELSE 0 END AS is_owner \
     FROM memberships b WHERE b.organization_id = $1 AND b.user_id = $2";
const JOIN: &str = "INSERT INTO memberships (organization_id, user_id, is_public, created_us) VALUES ($1, $2, $3, $4) \
     ON CONFLICT DO NOTHING";
const SET_VISIBILITY: &str =
    "UPDATE memberships SET is_public = $3 WHERE organization_id = $1 AND user_id = $2 AND is_public <> $3";
const LEAVE_TEAMS: &str = "DELETE FROM team_members WHERE user_id = $2 \
     AND team_id IN (SELECT id FROM teams WHERE organization_id = $1)";
const LEAVE: &str = "DELETE FROM memberships WHERE organization_id = $1 AND user_id = $2";
const ADD_OWNER: &str = "INSERT INTO team_members (team_id, user_id, created_us) \
     SELECT id, $2, $3 FROM teams WHERE organization_id = $1 AND level = 4 ON CONFLICT DO NOTHING";
const REMOVE_OWNER: &str = "DELETE FROM team_members WHERE user_id = $2 \
     AND team_id IN (SELECT id FROM teams WHERE organization_id = $1 AND level = 4)";
const OTHER_OWNER: &str = "SELECT m.user_id FROM teams t JOIN team_members m ON m.team_id = t.id \
     WHERE t.organization_id = $1 AND t.level = 4 AND m.user_id <> $2 LIMIT 1";

/// The membership of a user in an organization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Membership {
    /// True if the membership is visible to users who are no members.
    pub(crate) is_public: bool,
    /// True if the user is in the team of owners.
    pub(crate) is_owner: bool,
}

impl Membership {
    fn of((is_public, is_owner): (bool, i32)) -> Self {
        Self { is_public, is_owner: is_owner == 1 }
    }
}

/// Members of organizations. Methods that change members expect the organization to be locked in the same transaction.
impl OrganizationStore {
    /// Returns a page of the members of an organization, ordered by id, and their total number.
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
        Ok((self.db.all(rows.sql(), rows.args()).await?, total))
    }

    /// Returns the membership of a user; `None` if the user is no member.
    pub(crate) async fn membership(&self, id: UserId, user: UserId) -> Result<Option<Membership>, DbError> {
        Ok(self.db.optional(FIND, &args![id, user]).await?.map(Membership::of))
    }

    /// As [`OrganizationStore::membership`], within a transaction.
    pub(crate) async fn membership_in(
        &self,
        tx: &mut Tx,
        id: UserId,
        user: UserId,
    ) -> Result<Option<Membership>, DbError> {
        Ok(tx.optional(FIND, &args![id, user]).await?.map(Membership::of))
    }

    /// Adds a user as a member, with a private membership. Returns `false` if the user is a member already.
    ///
    /// # Errors
    /// [`RepoError::UserNotFound`] if the user was deleted, or those of the database.
    pub(crate) async fn join(&self, tx: &mut Tx, id: UserId, user: UserId, now_us: i64) -> Result<bool, RepoError> {
        let joined = tx.execute(JOIN, &args![id, user, false, now_us]).await;
        Ok(joined.map_err(or_missing(RepoError::UserNotFound))? == 1)
    }

    /// Adds a member to the team of owners.
    ///
    /// # Errors
    /// [`RepoError::UserNotFound`] if the user was deleted, or those of the database.
    pub(crate) async fn add_owner(&self, tx: &mut Tx, id: UserId, user: UserId, now_us: i64) -> Result<(), RepoError> {
        let added = tx.execute(ADD_OWNER, &args![id, user, now_us]).await;
        added.map(drop).map_err(or_missing(RepoError::UserNotFound))
    }

    /// Removes a member from the team of owners.
    ///
    /// # Errors
    /// [`RepoError::LastOwner`] if there is no other owner, or those of the database.
    pub(crate) async fn remove_owner(&self, tx: &mut Tx, id: UserId, user: UserId) -> Result<(), RepoError> {
        self.require_other_owner(tx, id, user).await?;
        tx.execute(REMOVE_OWNER, &args![id, user]).await?;
        Ok(())
    }

    /// Checks that the organization has an owner other than `user`.
    ///
    /// # Errors
    /// [`RepoError::LastOwner`], or those of the database.
    pub(crate) async fn require_other_owner(&self, tx: &mut Tx, id: UserId, user: UserId) -> Result<(), RepoError> {
        let other: Option<(i64,)> = tx.optional(OTHER_OWNER, &args![id, user]).await?;
        other.map(|_| ()).ok_or(RepoError::LastOwner)
    }

    /// Makes a membership public or private. Returns `false` if it was so already.
    pub(crate) async fn set_visibility(
        &self,
        tx: &mut Tx,
        id: UserId,
        user: UserId,
        is_public: bool,
    ) -> Result<bool, DbError> {
        Ok(tx.execute(SET_VISIBILITY, &args![id, user, is_public]).await? == 1)
    }

    /// Removes a user from an organization and all its teams. Returns `false` if the user is no member.
    ///
    /// # Errors
    /// [`RepoError::LastOwner`] if no owner would be left, or those of the database.
    pub(crate) async fn leave(&self, tx: &mut Tx, id: UserId, user: UserId) -> Result<bool, RepoError> {
        let Some(membership) = self.membership_in(tx, id, user).await? else { return Ok(false) };
        if membership.is_owner {
            self.require_other_owner(tx, id, user).await?;
        }
        tx.execute(LEAVE_TEAMS, &args![id, user]).await?;
        tx.execute(LEAVE, &args![id, user]).await?;
        Ok(true)
    }
}
