//! The teams that hold a repository of their organization.

use ferrite_core::page::Page;
use ferrite_db::{DbError, Query, Tx};
use ferrite_proto::id::{RepositoryId, TeamId, UserId};

use super::teams::{Team, TeamTable, rows};
use crate::model::lookup_key;

const COUNT: &str = "SELECT COUNT(*) FROM teams t WHERE t.organization_id = ";
const FIND: &str = "SELECT t.id FROM teams t WHERE t.id = ";

/// Adds a condition for teams `t` that hold a repository of their organization. Some hold all of
/// them.
pub(super) fn push_holds(query: &mut Query, repository: RepositoryId) {
    query
        .push(
            "(t.level = 4 OR t.includes_all_repositories OR EXISTS (SELECT 1 FROM team_repositories x WHERE x.team_id = t.id \
             AND x.repository_id = ",
        )
        .bind(repository)
        .push("))");
}

fn only_holding(query: &mut Query, repository: RepositoryId) {
    query.push(" AND ");
    push_holds(query, repository);
}

fn holding(team: TeamId, repository: RepositoryId) -> Query {
    let mut query = Query::new(FIND);
    query.bind(team);
    only_holding(&mut query, repository);
    query
}

/// `repository` must be one of the team's organization.
impl TeamTable {
    /// Returns a page of the teams of `organization` that hold the repository, ordered by id and
    /// read for `viewer`, and the total.
    pub(crate) async fn list_of_repository(
        &self,
        organization: UserId,
        repository: RepositoryId,
        viewer: Option<UserId>,
        page: Page,
    ) -> Result<(Vec<Team>, i64), DbError> {
        let (mut query, mut count) = (rows(viewer), Query::new(COUNT));
        query.push("t.organization_id = ").bind(organization);
        count.bind(organization);
        only_holding(&mut query, repository);
        only_holding(&mut count, repository);
        query.push(" ORDER BY t.id LIMIT ").bind(page.size()).push(" OFFSET ").bind(page.offset());
        let (total,): (i64,) = self.db.one(count.sql(), count.args()).await?;
        Ok((self.db.all(query.sql(), query.args()).await?, total))
    }

    /// Finds a team of an organization by name.
    pub(crate) async fn find_named(
        &self,
        organization: UserId,
        name: &str,
        viewer: Option<UserId>,
    ) -> Result<Option<Team>, DbError> {
        let Some(key) = lookup_key(name) else { return Ok(None) };
        let mut query = rows(viewer);
        query.push("t.organization_id = ").bind(organization).push(" AND t.name_key = ").bind(key);
        self.db.optional(query.sql(), query.args()).await
    }

    /// Like [`TeamTable::holds`], but true for teams that hold all repositories.
    pub(crate) async fn covers(&self, team: TeamId, repository: RepositoryId) -> Result<bool, DbError> {
        let query = holding(team, repository);
        Ok(self.db.optional::<(i64,)>(query.sql(), query.args()).await?.is_some())
    }

    pub(crate) async fn covers_in(&self, tx: &mut Tx, team: TeamId, repository: RepositoryId) -> Result<bool, DbError> {
        let query = holding(team, repository);
        Ok(tx.optional::<(i64,)>(query.sql(), query.args()).await?.is_some())
    }
}
