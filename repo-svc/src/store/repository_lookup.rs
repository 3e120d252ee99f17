//! Finds single repositories by id and by current or former name. Callers check whether the viewer
//! may see them.

use std::sync::Arc;

use ferrite_db::{DbError, Query};

use super::repositories::{
    COLUMNS, CachedViewer, FROM, READY, Repository, RepositoryKey, RepositoryTable, by_key, roles, rows,
};
use super::visibility;
use crate::access::Viewer;

/// The part of a viewer that rows depend on.
fn cached_viewer(viewer: &Viewer) -> CachedViewer {
    (viewer.user(), viewer.is_anonymous())
}

/// Like [`rows`], but `is_parent_hidden` is true for every private fork (unless the viewer is a
/// deploy key), so [`RepositoryTable::check_parents`] must follow. Most repositories are not
/// private forks, and setting up the search for hidden parents takes PostgreSQL as long as all the
/// rest.
fn unchecked_rows(viewer: &Viewer) -> Query {
    if viewer.user().is_none() && !viewer.is_anonymous() {
        return rows(viewer);
    }
    let mut query = Query::new(COLUMNS);
    query.push("(r.is_private AND r.parent_id IS NOT NULL) AS is_parent_hidden, ");
    roles(&mut query, FROM, viewer);
    query.push(READY);
    query
}

impl RepositoryTable {
    /// Reads a repository for `viewer`. The caller checks whether the viewer can see it.
    pub(crate) async fn find(&self, key: &RepositoryKey, viewer: &Viewer) -> Result<Option<Repository>, DbError> {
        let query = async {
            let mut query = unchecked_rows(viewer);
            by_key(&mut query, key);
            let mut rows: Vec<Repository> = self.db.lookup_all(query.sql(), query.args()).await?;
            self.check_parents(&mut rows, viewer).await?;
            Ok(rows.pop())
        };
        self.cache.get_or_query(&self.db, (key.clone(), cached_viewer(viewer)), query).await
    }

    /// Like [`RepositoryTable::find`], but with the parent of a fork, which the viewer may not be
    /// able to see.
    pub(crate) async fn find_with_parent(
        &self,
        key: &RepositoryKey,
        viewer: &Viewer,
    ) -> Result<Option<Repository>, DbError> {
        let query = async {
            let mut query = unchecked_rows(viewer);
            query.push(" AND r.id IN (");
            for (start, column) in [("", "x.id"), (" UNION ALL ", "x.parent_id")] {
                query.push(start).push("SELECT ").push(column);
                match key {
                    RepositoryKey::Id(id) => query.push(" FROM repositories x WHERE x.id = ").bind(*id),
                    RepositoryKey::Name { owner, name } => query
                        .push(" FROM users o JOIN repositories x ON x.owner_id = o.id WHERE o.name_key = ")
                        .bind(owner)
                        .push(" AND x.name_key = ")
                        .bind(name),
                };
                query.push(" AND x.state = 'ready'");
            }
            query.push(")");
            let mut rows: Vec<Repository> = self.db.lookup_all(query.sql(), query.args()).await?;
            self.check_parents(&mut rows, viewer).await?;
            let (mut found, parents): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| has_key(row, key));
            let mut found = found.pop();
            if let Some(found) = &mut found {
                found.parent = parents.into_iter().next().map(Arc::new);
            }
            Ok(found)
        };
        self.with_parent.get_or_query(&self.db, (key.clone(), cached_viewer(viewer)), query).await
    }

    /// Returns the repository that used to have a name, read for `viewer`. The caller checks
    /// whether the viewer can see it. Returns nothing for an id.
    pub(crate) async fn find_redirected(
        &self,
        key: &RepositoryKey,
        viewer: &Viewer,
    ) -> Result<Option<Repository>, DbError> {
        let RepositoryKey::Name { owner, name } = key else { return Ok(None) };
        let query = async {
            let mut query = unchecked_rows(viewer);
            query
                .push(
                    " AND r.id = (SELECT x.repository_id FROM repository_redirects x JOIN users f ON f.id = x.owner_id \
                     WHERE f.name_key = ",
                )
                .bind(owner)
                .push(" AND x.name_key = ")
                .bind(name)
                .push(")");
            let mut rows: Vec<Repository> = self.db.lookup_all(query.sql(), query.args()).await?;
            self.check_parents(&mut rows, viewer).await?;
            Ok(rows.pop())
        };
        self.redirected.get_or_query(&self.db, (key.clone(), cached_viewer(viewer)), query).await
    }

    /// Finds out which private forks among [`unchecked_rows`] have a parent hidden from the viewer.
    /// Skips viewers without a role, whose access does not depend on it. So they cause as many
    /// queries as if there were no such repository.
    async fn check_parents(&self, rows: &mut [Repository], viewer: &Viewer) -> Result<(), DbError> {
        let Some(user) = viewer.user() else { return Ok(()) };
        let is_checked = |row: &&Repository| row.is_parent_hidden && row.has_role(user);
        let ids: Vec<i64> = rows.iter().filter(is_checked).map(|row| row.id).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let mut query = Query::new("SELECT r.id FROM repositories r WHERE r.id IN ");
        query.bind_list(ids).push(" AND NOT ");
        visibility::is_parent_hidden(&mut query, viewer);
        let open: Vec<(i64,)> = self.db.lookup_all(query.sql(), query.args()).await?;
        for row in rows {
            row.is_parent_hidden = row.is_parent_hidden && !open.contains(&(row.id,));
        }
        Ok(())
    }
}

fn has_key(row: &Repository, key: &RepositoryKey) -> bool {
    match key {
        RepositoryKey::Id(id) => *id == row.id(),
        RepositoryKey::Name { .. } => RepositoryKey::of(&row.owner_name, &row.name).as_ref() == Some(key),
    }
}
