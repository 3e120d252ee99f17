//! Who may review the pull requests of a repository, and who can be assigned to its issues.

use std::collections::HashMap;

use ferrite_core::page::Page;
use ferrite_db::{DbError, Query};
use ferrite_proto::Permission;
use ferrite_proto::id::UserId;

use super::repositories::{Repository, RepositoryTable};
use super::repository_teams::push_holds;
use super::sql::{level_from_number, level_from_str};
use super::visibility;
use crate::access::{RepositoryAccess, Unit, Viewer};
use crate::model::User;

const ASSIGNEES: &str = "SELECT u.id, u.kind, u.name, u.full_name, u.email, u.is_admin";
const COUNT: &str = "SELECT COUNT(*)";
/// Teams returned for each user.
const MAX_TEAMS: i64 = 100;

/// A user with the roles on one repository.
#[derive(Debug, sqlx_macros::FromRow)]
struct RolesRow {
    id: i64,
    name_key: String,
    collaborator: Option<String>,
    team_level: Option<i64>,
    is_member: bool,
    is_parent_hidden: bool,
}

impl RolesRow {
    /// The level on content, without what the user may do as an administrator of the site.
    fn level(&self, repository: &Repository) -> Permission {
        let access = RepositoryAccess {
            collaborator: level_from_str(self.collaborator.as_deref()),
            team: level_from_number(self.team_level),
            is_member: self.is_member,
            is_parent_hidden: self.is_parent_hidden,
            ..repository.access()
        };
        access.level(&Viewer::account(UserId(self.id), false), Unit::Repository)
    }
}

/// A user who may be asked for a review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reviewer {
    pub(crate) id: UserId,
    /// The case-folded name.
    pub(crate) name_key: String,
    /// The level on content, without what the user may do as an administrator of the site.
    pub(crate) level: Permission,
    /// The user's teams that hold the repository, at most 100, ordered by id.
    pub(crate) team_ids: Vec<i64>,
}

/// A team of the organization that owns the repository.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub(crate) struct ReviewingTeam {
    pub(crate) id: i64,
    pub(crate) name: String,
    /// The case-folded name.
    pub(crate) name_key: String,
    /// Every level of a team includes reading.
    pub(crate) holds: bool,
}

impl RepositoryTable {
    /// Returns the active users among those with these ids and folded names, each once.
    pub(crate) async fn reviewers(
        &self,
        repository: &Repository,
        ids: &[i64],
        name_keys: &[&str],
    ) -> Result<Vec<Reviewer>, DbError> {
        if ids.is_empty() && name_keys.is_empty() {
            return Ok(Vec::new());
        }
        let query = roles(repository, ids, name_keys);
        let rows: Vec<RolesRow> = self.db.all(query.sql(), query.args()).await?;
        let mut teams = self.teams_of(repository, rows.iter().map(|row| row.id).collect()).await?;
        let reviewer = |row: RolesRow| Reviewer {
            id: UserId(row.id),
            level: row.level(repository),
            team_ids: teams.remove(&row.id).unwrap_or_default(),
            name_key: row.name_key,
        };
        Ok(rows.into_iter().map(reviewer).collect())
    }

    /// Returns the teams of each user that hold the repository.
    async fn teams_of(&self, repository: &Repository, users: Vec<i64>) -> Result<HashMap<i64, Vec<i64>>, DbError> {
        let mut teams = HashMap::<_, Vec<_>>::new();
        let Some(organization) = repository.organization() else { return Ok(teams) };
        let mut query = Query::new(
            "SELECT user_id, id FROM (SELECT m.user_id, t.id, ROW_NUMBER() OVER (PARTITION BY m.user_id ORDER BY t.id) AS place \
             FROM teams t JOIN team_members m ON m.team_id = t.id WHERE t.organization_id = ",
        );
        query.bind(organization.0).push(" AND ");
        push_holds(&mut query, repository.id());
        query.push(" AND m.user_id IN ").bind_list(users).push(") AS held WHERE place <= ").bind(MAX_TEAMS);
        query.push(" ORDER BY user_id, id");
        let rows: Vec<(i64, i64)> = self.db.all(query.sql(), query.args()).await?;
        for (user, team) in rows {
            teams.entry(user).or_default().push(team);
        }
        Ok(teams)
    }

    /// Returns the teams with these folded names, in no order.
    pub(crate) async fn reviewing_teams(
        &self,
        repository: &Repository,
        name_keys: &[&str],
    ) -> Result<Vec<ReviewingTeam>, DbError> {
        let Some(organization) = repository.organization().filter(|_| !name_keys.is_empty()) else {
            return Ok(Vec::new());
        };
        let mut query = Query::new("SELECT t.id, t.name, t.name_key, ");
        push_holds(&mut query, repository.id());
        query.push(" AS holds FROM teams t WHERE t.organization_id = ").bind(organization.0);
        query.push(" AND t.name_key IN ").bind_list(name_keys.iter().copied());
        self.db.all(query.sql(), query.args()).await
    }

    /// Returns a page of the active users with a role on the repository, ordered by id, and the
    /// total. Members of teams whose membership in the organization is private are left out unless
    /// `with_private_members`.
    pub(crate) async fn assignees(
        &self,
        repository: &Repository,
        with_private_members: bool,
        page: Page,
    ) -> Result<(Vec<User>, i64), DbError> {
        let mut rows = assignees(ASSIGNEES, repository, with_private_members);
        rows.push(" ORDER BY u.id LIMIT ").bind(page.size()).push(" OFFSET ").bind(page.offset());
        let count = assignees(COUNT, repository, with_private_members);
        let (total,): (i64,) = self.db.one(count.sql(), count.args()).await?;
        Ok((self.db.all(rows.sql(), rows.args()).await?, total))
    }
}

/// A query for the roles of users on a repository.
fn roles(repository: &Repository, ids: &[i64], name_keys: &[&str]) -> Query {
    let (id, owner) = (repository.id(), UserId(repository.owner_id));
    let mut query = Query::new(
        "SELECT u.id, u.name_key, (SELECT c.permission FROM collaborators c WHERE c.user_id = u.id AND c.repository_id = ",
    );
    query.bind(id).push(
        ") AS collaborator, (SELECT MAX(t.level) FROM team_members m JOIN teams t ON t.id = m.team_id \
         WHERE m.user_id = u.id AND t.organization_id = ",
    );
    query.bind(owner).push(" AND ");
    push_holds(&mut query, id);
    query.push(") AS team_level, EXISTS (SELECT 1 FROM memberships m WHERE m.user_id = u.id AND m.organization_id = ");
    query.bind(owner).push(") AS is_member, ");
    match private_parent(repository) {
        Some(parent) => visibility::is_parent_hidden_from_each(&mut query, parent),
        None => {
            query.push("FALSE");
        }
    }
    // Each part uses its own index.
    query.push(" AS is_parent_hidden FROM users u WHERE u.kind = 'user' AND u.is_active AND u.id IN ");
    query.push("(SELECT id FROM users WHERE id IN ").bind_list(ids.iter().copied());
    query.push(" UNION SELECT id FROM users WHERE name_key IN ").bind_list(name_keys.iter().copied()).push(")");
    query
}

/// The tables and filters of the users with a role on a repository.
fn assignees(start: &'static str, repository: &Repository, with_private_members: bool) -> Query {
    let (id, owner) = (repository.id(), UserId(repository.owner_id));
    let mut query = Query::new(start);
    query
        .push(" FROM users u WHERE u.kind = 'user' AND u.is_active AND u.id IN (SELECT owner_id FROM repositories WHERE id = ")
        .bind(id)
        .push(" UNION SELECT user_id FROM collaborators WHERE repository_id = ")
        .bind(id)
        .push(
            " UNION SELECT m.user_id FROM teams t JOIN team_members m ON m.team_id = t.id WHERE t.organization_id = ",
        )
        .bind(owner)
        .push(" AND ");
    push_holds(&mut query, id);
    if !with_private_members {
        query.push(" AND m.user_id IN (SELECT user_id FROM memberships WHERE is_public AND organization_id = ");
        query.bind(owner).push(")");
    }
    query.push(")");
    if let Some(parent) = private_parent(repository) {
        query.push(" AND NOT ");
        visibility::is_parent_hidden_from_each(&mut query, parent);
    }
    query
}

/// The parent that a private fork may not show.
fn private_parent(repository: &Repository) -> Option<i64> {
    repository.parent_id.filter(|_| repository.is_private)
}
