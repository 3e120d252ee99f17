//! Forks: the relation to the parent, and the parent's fork count.
//!
//! The count changes in the transaction that finishes or deletes a fork. Such a transaction locks
//! the parent before the fork. So does the deletion of a parent, which turns its forks into
//! ordinary repositories.

use ferrite_core::page::Page;
use ferrite_db::args;
use ferrite_db::{DbError, Query, Tx};
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_rpc::auth::AuthError;

use super::quotas::{self, OwnerLimits};
use super::repositories::{CreatedOnDisk, NewRepository, Repository, RepositoryTable, rows};
use super::repository_lists::ListQueries;
use super::sql::or_missing;
use super::visibility;
use crate::access::Viewer;
use crate::error::RepoError;
use crate::model::{Visibility, lookup_key};

/// Maximum length of a chain of forks of forks, including the first repository. Access to a private
/// fork depends on the whole chain.
const MAX_CHAIN_LENGTH: i64 = 16;

const CHAIN_LENGTH: &str = "WITH RECURSIVE chain (id, parent_id) AS (SELECT id, parent_id FROM repositories WHERE id = $1 \
     UNION ALL SELECT r.id, r.parent_id FROM chain c JOIN repositories r ON r.id = c.parent_id) SELECT COUNT(*) FROM chain";
const SET_PARENT: &str = "UPDATE repositories SET parent_id = $2 WHERE id = $1";
/// The age of an unfinished repository counts from the last sign of life.
const KEEP_UNFINISHED: &str =
    "UPDATE repositories SET created_us = $2, updated_us = $2 WHERE id = $1 AND state = 'creating'";
const ADD_FORK: &str =
    "UPDATE repositories SET fork_count = fork_count + 1 WHERE id = $1 AND state = 'ready' RETURNING owner_id";
const SET_PRIVATE: &str = "UPDATE repositories SET is_private = $2 WHERE id = $1";

impl Repository {
    /// Who may see the owner.
    pub(crate) fn owner_visibility(&self) -> Visibility {
        Visibility::from_number(self.owner_visibility)
    }

    /// Whether some users, or anonymous viewers, cannot see it without a role. Forks of it must be
    /// private.
    pub(crate) fn is_hidden(&self) -> bool {
        self.is_private || self.owner_visibility() != Visibility::Public
    }
}

impl RepositoryTable {
    /// Like [`RepositoryTable::insert`], but for a fork of `parent`. The fork must fit into the
    /// owner's quota together with unfinished ones.
    pub(crate) async fn insert_fork(
        &self,
        owner: UserId,
        new: &NewRepository,
        parent: RepositoryId,
        limits: OwnerLimits,
        now_us: i64,
    ) -> Result<Option<(RepositoryId, i64)>, RepoError> {
        let mut tx = self.db.begin().await?;
        let (length,): (i64,) = tx.one(CHAIN_LENGTH, &args![parent]).await?;
        if length >= MAX_CHAIN_LENGTH {
            return Err(RepoError::ForksTooDeep { limit: MAX_CHAIN_LENGTH });
        }
        let Some((id, epoch)) = self.insert_in(&mut tx, owner, new, limits, now_us).await? else { return Ok(None) };
        let linked = tx.execute(SET_PARENT, &args![id, parent]).await;
        linked.map_err(or_missing(AuthError::RepositoryNotFound))?;
        quotas::check_copies(&mut tx, owner, limits).await?;
        tx.commit().await?;
        Ok(Some((id, epoch)))
    }

    /// Tells the sweeper that the creation is still running.
    pub(crate) async fn keep_unfinished(&self, id: RepositoryId, now_us: i64) -> Result<(), DbError> {
        self.db.execute(KEEP_UNFINISHED, &args![id, now_us]).await.map(drop)
    }

    /// Like [`RepositoryTable::finish`], and increments the fork count. The fork becomes private if
    /// the parent, or the parent's owner, became hidden during the copy. Returns the fork and its parent, read for
    /// `viewer`. Fails with [`RepoError::Interrupted`] if the fork was removed in the meantime.
    pub(crate) async fn finish_fork(
        &self,
        tx: &mut Tx,
        id: RepositoryId,
        parent: RepositoryId,
        finished: CreatedOnDisk,
        viewer: &Viewer,
    ) -> Result<(Repository, Repository), RepoError> {
        tx.optional::<(i64,)>(ADD_FORK, &args![parent]).await?.ok_or(AuthError::RepositoryNotFound)?;
        let parent = self.find_in(tx, parent, viewer).await?.ok_or(AuthError::RepositoryNotFound)?;
        if parent.is_hidden() {
            tx.execute(SET_PRIVATE, &args![id, true]).await?;
        }
        let fork = self.finish(tx, id, finished, viewer).await?.ok_or(RepoError::Interrupted)?;
        Ok((fork, parent))
    }

    /// Returns a page of the forks that the viewer can see, ordered by id, and the total.
    pub(crate) async fn list_forks(
        &self,
        parent: RepositoryId,
        viewer: &Viewer,
        page: Page,
    ) -> Result<(Vec<Repository>, i64), DbError> {
        let filter = |query: &mut Query| {
            query.push(" AND r.parent_id = ").bind(parent);
            visibility::only_visible(query, viewer);
        };
        self.list_page(ListQueries::by_id(), filter, viewer, page).await
    }

    /// Returns the repository of an owner in the family of `repository` that the viewer can see: the
    /// repository itself, or else a fork of it, its parent, or another fork of its parent. The
    /// oldest one, if there are several.
    pub(crate) async fn find_fork(
        &self,
        repository: &Repository,
        owner: &str,
        viewer: &Viewer,
    ) -> Result<Option<Repository>, DbError> {
        let Some(owner_key) = lookup_key(owner) else { return Ok(None) };
        let parent = repository.parent_id.unwrap_or(0);
        let mut query = rows(viewer);
        query.push(" AND r.id IN (");
        let parts = [
            ("", "x.id", repository.id),
            (" UNION ALL ", "x.parent_id", repository.id),
            (" UNION ALL ", "x.id", parent),
            (" UNION ALL ", "x.parent_id", parent),
        ];
        for (start, column, id) in parts {
            query
                .push(start)
                .push("SELECT x.id FROM users o JOIN repositories x ON x.owner_id = o.id WHERE o.name_key = ")
                .bind(owner_key.as_str())
                .push(" AND ")
                .push(column)
                .push(" = ")
                .bind(id);
        }
        query.push(")");
        visibility::only_visible(&mut query, viewer);
        query.push(" ORDER BY CASE WHEN r.id = ").bind(repository.id).push(" THEN 0 WHEN r.parent_id = ");
        query.bind(repository.id).push(" THEN 1 WHEN r.id = ").bind(parent).push(" THEN 2 ELSE 3 END, r.id LIMIT 1");
        self.db.optional(query.sql(), query.args()).await
    }

    /// Returns the repositories that exist and that the viewer can see, unordered. Callers limit
    /// their number.
    pub(crate) async fn find_many_visible(&self, ids: &[i64], viewer: &Viewer) -> Result<Vec<Repository>, DbError> {
        let mut query = rows(viewer);
        query.push(" AND r.id IN ").bind_list(ids.iter().copied());
        visibility::only_visible(&mut query, viewer);
        self.db.all(query.sql(), query.args()).await
    }
}
