use ferrite_core::page::Page;
use ferrite_db::args;
use ferrite_db::{Db, DbError, Tx};
use ferrite_proto::Permission;
use ferrite_proto::id::{RepositoryId, UserId};

use super::sql::level_from_str;
use crate::model::User;

const LIST: &str = "SELECT u.id, u.name, u.full_name, u.email, u.kind, u.is_admin, c.permission \
     FROM collaborators c JOIN users u ON u.id = c.user_id WHERE c.repository_id = $1 ORDER BY c.user_id LIMIT $2 OFFSET $3";
const COUNT: &str = "SELECT COUNT(*) FROM collaborators WHERE repository_id = $1";
const FIND: &str = "SELECT u.id, u.name, u.full_name, u.email, u.kind, u.is_admin, c.permission \
     FROM collaborators c JOIN users u ON u.id = c.user_id WHERE c.repository_id = $1 AND c.user_id = $2";
const LEVEL: &str = "SELECT permission FROM collaborators WHERE repository_id = $1 AND user_id = $2";
const SET: &str = "INSERT INTO collaborators (repository_id, user_id, permission, created_us) VALUES ($1, $2, $3, $4) \
     ON CONFLICT (repository_id, user_id) DO UPDATE SET permission = excluded.permission";
const REMOVE: &str = "DELETE FROM collaborators WHERE repository_id = $1 AND user_id = $2";
/// Only for members of teams that may create repositories, unless a team gives the level already.
const ADD_CREATOR: &str = "INSERT INTO collaborators (repository_id, user_id, permission, created_us) \
     SELECT $1, m.user_id, 'admin', $4 FROM team_members m JOIN teams t ON t.id = m.team_id \
     WHERE t.organization_id = $2 AND m.user_id = $3 GROUP BY m.user_id \
     HAVING MAX(CASE WHEN t.can_create_repositories THEN 1 ELSE 0 END) = 1 \
     AND MAX(CASE WHEN t.level = 4 OR (t.level = 3 AND t.includes_all_repositories) THEN 1 ELSE 0 END) = 0 ON CONFLICT DO NOTHING";

#[derive(Debug, sqlx_macros::FromRow)]
struct CollaboratorRow {
    #[sqlx(flatten)]
    user: User,
    permission: String,
}

/// A user added to a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Collaborator {
    pub(crate) user: User,
    pub(crate) permission: Permission,
}

impl From<CollaboratorRow> for Collaborator {
    fn from(row: CollaboratorRow) -> Self {
        Self { user: row.user, permission: level_from_str(Some(&row.permission)) }
    }
}

/// Before changing collaborators, [lock](super::RepositoryTable::lock) the repository in the same
/// transaction, so that the levels read stay valid.
#[derive(Clone, Debug)]
pub(crate) struct CollaboratorTable {
    db: Db,
}

impl CollaboratorTable {
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// Returns a page of collaborators, ordered by user id, and the total.
    pub(crate) async fn list(&self, repository: RepositoryId, page: Page) -> Result<(Vec<Collaborator>, i64), DbError> {
        let (total,): (i64,) = self.db.one(COUNT, &args![repository]).await?;
        let rows: Vec<CollaboratorRow> = self.db.all(LIST, &args![repository, page.size(), page.offset()]).await?;
        Ok((rows.into_iter().map(Collaborator::from).collect(), total))
    }

    pub(crate) async fn find(&self, repository: RepositoryId, user: UserId) -> Result<Option<Collaborator>, DbError> {
        let row: Option<CollaboratorRow> = self.db.optional(FIND, &args![repository, user]).await?;
        Ok(row.map(Collaborator::from))
    }

    /// Returns [`Permission::None`] if the user is not a collaborator.
    pub(crate) async fn level(
        &self,
        tx: &mut Tx,
        repository: RepositoryId,
        user: UserId,
    ) -> Result<Permission, DbError> {
        let row: Option<(String,)> = tx.optional(LEVEL, &args![repository, user]).await?;
        Ok(level_from_str(row.as_ref().map(|(word,)| word.as_str())))
    }

    /// Adds a collaborator or changes the level. Fails with [`DbError::is_foreign_key`] if the user
    /// was deleted.
    pub(crate) async fn set(
        &self,
        tx: &mut Tx,
        repository: RepositoryId,
        user: UserId,
        permission: Permission,
        now_us: i64,
    ) -> Result<(), DbError> {
        tx.execute(SET, &args![repository, user, permission.to_string(), now_us]).await.map(drop)
    }

    /// Returns `false` if the user was not a collaborator.
    pub(crate) async fn remove(&self, tx: &mut Tx, repository: RepositoryId, user: UserId) -> Result<bool, DbError> {
        Ok(tx.execute(REMOVE, &args![repository, user]).await? == 1)
    }
}

/// Makes the creator of an organization's new repository a collaborator of level admin, if the
/// creator has no such level already.
pub(super) async fn add_creator(
    tx: &mut Tx,
    repository: RepositoryId,
    organization: UserId,
    creator: UserId,
    now_us: i64,
) -> Result<(), DbError> {
    tx.execute(ADD_CREATOR, &args![repository, organization, creator, now_us]).await.map(drop)
}

#[cfg(test)]
mod tests;
