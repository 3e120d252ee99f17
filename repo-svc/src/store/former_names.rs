use ferrite_kit::db::DbError;

use super::repositories::{Repository, RepositoryKey, RepositoryStore, rows};
use crate::access::Viewer;

impl RepositoryStore {
    /// Returns the repository that had a name and has another one now, read for `viewer`. The caller checks whether the viewer may see
    /// it. An id is no name.
    pub(crate) async fn find_redirected(
        &self,
        key: &RepositoryKey,
        viewer: &Viewer,
    ) -> Result<Option<Repository>, DbError> {
        let RepositoryKey::Name { owner, name } = key else { return Ok(None) };
        let query = async {
            let mut query = rows(viewer);
            query
                .push(
                    " AND r.id = (SELECT x.repository_id FROM repository_redirects x JOIN users f ON f.id = x.owner_id \
                     WHERE f.name_key = ",
                )
                .bind(owner)
                .push(" AND x.name_key = ")
                .bind(name)
                .push(")");
            self.db.optional(query.sql(), query.args()).await
        };
        self.redirected.get_or_query(&self.db, (key.clone(), viewer.user()), query).await
    }
}
