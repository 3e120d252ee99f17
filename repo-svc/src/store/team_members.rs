//! Members and repositories of teams.
//!
//! Not here: the teams themselves (`teams`).

use ferrite_kit::args;
use ferrite_kit::auth::AuthError;
use ferrite_kit::db::{DbError, Tx};
use ferrite_kit::page::Page;
use ferrite_proto::id::{RepositoryId, TeamId, UserId};

use super::sql::or_missing;
use super::teams::TeamStore;
use crate::error::RepoError;
use crate::model::{User, lookup_key};

const MEMBERS: &str = "SELECT u.id, u.kind, u.name, u.full_name, u.email, u.is_admin \
     FROM team_members m JOIN users u ON u.id = m.user_id WHERE m.team_id = $1 ORDER BY u.id LIMIT $2 OFFSET $3";
const COUNT_MEMBERS: &str = "SELECT COUNT(*) FROM team_members WHERE team_id = $1";
const IS_MEMBER: &str = "SELECT user_id FROM team_members WHERE team_id = $1 AND user_id = $2";
const ADD_MEMBER: &str =
    "INSERT INTO team_members (team_id, user_id, created_us) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
const REMOVE_MEMBER: &str = "DELETE FROM team_members WHERE team_id = $1 AND user_id = $2";
const FIND_REPOSITORY: &str =
    "SELECT id, name FROM repositories WHERE owner_id = $1 AND name_key = $2 AND state = 'ready'";
const HOLDS: &str = "SELECT repository_id FROM team_repositories WHERE team_id = $1 AND repository_id = $2";
const ADD_REPOSITORY: &str =
    "INSERT INTO team_repositories (team_id, repository_id, created_us) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
const REMOVE_REPOSITORY: &str = "DELETE FROM team_repositories WHERE team_id = $1 AND repository_id = $2";

/// Members and repositories of teams. Methods that change some expect that the same transaction locked the organization and read
/// the team after that.
impl TeamStore {
    /// Returns a page of the members of a team, ordered by id, and their total number.
    pub(crate) async fn members(&self, team: TeamId, page: Page) -> Result<(Vec<User>, i64), DbError> {
        let (total,): (i64,) = self.db.one(COUNT_MEMBERS, &args![team]).await?;
        Ok((self.db.all(MEMBERS, &args![team, page.size(), page.offset()]).await?, total))
    }

    /// Returns whether a user is in a team.
    pub(crate) async fn is_member(&self, team: TeamId, user: UserId) -> Result<bool, DbError> {
        Ok(self.db.optional::<(i64,)>(IS_MEMBER, &args![team, user]).await?.is_some())
    }

    /// As [`TeamStore::is_member`], within a transaction.
    pub(crate) async fn has_member(&self, tx: &mut Tx, team: TeamId, user: UserId) -> Result<bool, DbError> {
        Ok(tx.optional::<(i64,)>(IS_MEMBER, &args![team, user]).await?.is_some())
    }

    /// Adds a member of the organization to a team. Returns `false` if it is in the team already.
    ///
    /// # Errors
    /// [`RepoError::UserNotFound`] if the user was deleted, or those of the database.
    pub(crate) async fn add_member(
        &self,
        tx: &mut Tx,
        team: TeamId,
        user: UserId,
        now_us: i64,
    ) -> Result<bool, RepoError> {
        let added = tx.execute(ADD_MEMBER, &args![team, user, now_us]).await;
        Ok(added.map_err(or_missing(RepoError::UserNotFound))? == 1)
    }

    /// Removes a user from a team. Returns `false` if it is not in the team. The caller checks that an owner is left.
    pub(crate) async fn remove_member(&self, tx: &mut Tx, team: TeamId, user: UserId) -> Result<bool, DbError> {
        Ok(tx.execute(REMOVE_MEMBER, &args![team, user]).await? == 1)
    }

    /// Returns the id and the name, as it is spelled, of the organization's repository with a name.
    pub(crate) async fn find_repository(
        &self,
        organization: UserId,
        name: &str,
    ) -> Result<Option<(RepositoryId, String)>, DbError> {
        let Some(key) = lookup_key(name) else { return Ok(None) };
        let row: Option<(i64, String)> = self.db.optional(FIND_REPOSITORY, &args![organization, key]).await?;
        Ok(row.map(|(id, name)| (RepositoryId(id), name)))
    }

    /// Returns whether a team holds a repository.
    pub(crate) async fn holds(&self, team: TeamId, repository: RepositoryId) -> Result<bool, DbError> {
        Ok(self.db.optional::<(i64,)>(HOLDS, &args![team, repository]).await?.is_some())
    }

    /// Adds a repository to a team. Returns `false` if the team holds it already.
    ///
    /// # Errors
    /// [`AuthError::RepositoryNotFound`] if the repository was deleted, or those of the database.
    pub(crate) async fn add_repository(
        &self,
        tx: &mut Tx,
        team: TeamId,
        repository: RepositoryId,
        now_us: i64,
    ) -> Result<bool, RepoError> {
        let added = tx.execute(ADD_REPOSITORY, &args![team, repository, now_us]).await;
        Ok(added.map_err(or_missing(AuthError::RepositoryNotFound))? == 1)
    }

    /// Removes a repository from a team. Returns `false` if the team does not hold it.
    pub(crate) async fn remove_repository(
        &self,
        tx: &mut Tx,
        team: TeamId,
        repository: RepositoryId,
    ) -> Result<bool, DbError> {
        Ok(tx.execute(REMOVE_REPOSITORY, &args![team, repository]).await? == 1)
    }
}
