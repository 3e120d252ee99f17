//! Looks up many repositories at once, to decide about access to their issues and pull requests.

use std::collections::BTreeSet;

use ferrite_db::args;
use ferrite_db::{DbError, Query};
use ferrite_proto::id::{RepositoryId, UserId};

use super::repositories::{RepositoryKey, RepositoryTable};
use super::sql::{level_from_number, level_from_str};
use super::visibility;
use crate::access::{RepositoryAccess, Viewer};
use crate::model::Visibility;

/// Begins a query by names; the pairs follow.
const WANTED: &str = "WITH wanted (owner_key, name_key) AS (VALUES ";
const COLUMNS: &str = "SELECT r.id, r.name, r.name_key, r.owner_id, r.is_private, r.is_archived, r.is_issues_enabled, \
     r.is_external_tracker, r.has_pulls, u.name AS owner_name, u.name_key AS owner_key, u.visibility AS owner_visibility, c.permission AS collaborator, ";
/// The viewer's id follows. `CROSS JOIN` makes SQLite join in this order.
const FROM_WANTED: &str = " AS is_member FROM wanted w CROSS JOIN users u CROSS JOIN repositories r \
     LEFT JOIN collaborators c ON c.repository_id = r.id AND c.user_id = ";
const FROM: &str = " AS is_member FROM repositories r JOIN users u ON u.id = r.owner_id \
     LEFT JOIN collaborators c ON c.repository_id = r.id AND c.user_id = ";
const WITH_ISSUES: &str = " WHERE r.state = 'ready' AND r.is_issues_enabled AND NOT r.is_external_tracker";
const WITH_ISSUES_OR_PULLS: &str =
    " WHERE r.state = 'ready' AND (r.has_pulls OR (r.is_issues_enabled AND NOT r.is_external_tracker))";
const IS_WANTED: &str = " AND u.name_key = w.owner_key AND r.owner_id = u.id AND r.name_key = w.name_key";

/// A repository with issues or pull requests, with the roles of one viewer.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub(crate) struct IssueRepository {
    pub(crate) id: i64,
    pub(crate) owner_name: String,
    pub(crate) name: String,
    owner_key: String,
    name_key: String,
    owner_id: i64,
    is_private: bool,
    pub(crate) is_archived: bool,
    is_issues_enabled: bool,
    is_external_tracker: bool,
    pub(crate) has_pulls: bool,
    owner_visibility: i64,
    collaborator: Option<String>,
    is_parent_hidden: bool,
    team_level: Option<i64>,
    is_member: bool,
}

impl IssueRepository {
    /// The two keys under which it may have been requested.
    pub(crate) fn keys(&self) -> [RepositoryKey; 2] {
        let by_name = RepositoryKey::Name { owner: self.owner_key.clone(), name: self.name_key.clone() };
        [RepositoryKey::Id(RepositoryId(self.id)), by_name]
    }

    /// Whether its issue tracker is usable.
    pub(crate) fn has_issues(&self) -> bool {
        self.is_issues_enabled && !self.is_external_tracker
    }

    /// For the viewer that the row was read for.
    pub(crate) fn access(&self) -> RepositoryAccess {
        RepositoryAccess {
            repository: RepositoryId(self.id),
            owner: UserId(self.owner_id),
            is_private: self.is_private,
            owner_visibility: Visibility::from_number(self.owner_visibility),
            is_member: self.is_member,
            collaborator: level_from_str(self.collaborator.as_deref()),
            team: level_from_number(self.team_level),
            is_parent_hidden: self.is_parent_hidden,
        }
    }
}

fn rows(mut query: Query, from: &'static str, with_pulls: bool, viewer: &Viewer) -> Query {
    query.push(COLUMNS);
    visibility::is_parent_hidden(&mut query, viewer);
    query.push(" AS is_parent_hidden, ");
    visibility::team_level(&mut query, viewer);
    query.push(" AS team_level, ");
    visibility::is_member(&mut query, viewer);
    query.push(from).bind(viewer.user().map_or(0, |user| user.0));
    query.push(if with_pulls { WITH_ISSUES_OR_PULLS } else { WITH_ISSUES });
    query
}

fn by_ids(ids: BTreeSet<i64>, with_pulls: bool, viewer: &Viewer) -> Query {
    let mut query = rows(Query::default(), FROM, with_pulls, viewer);
    query.push(" AND r.id IN ").bind_list(ids);
    query
}

/// Joins with the pairs. Comparing with lists of names would try every owner with every name.
fn by_names(names: BTreeSet<(&str, &str)>, with_pulls: bool, viewer: &Viewer) -> Query {
    let mut query = Query::new(WANTED);
    query.bind_rows(names.into_iter().map(|(owner, name)| args![owner, name])).push(") ");
    let mut query = rows(query, FROM_WANTED, with_pulls, viewer);
    query.push(IS_WANTED);
    query
}

impl RepositoryTable {
    /// Returns the repositories that exist and have a usable issue tracker, or pull requests if
    /// these count, too, with one query for ids and one for names. One requested by id and by name
    /// appears twice. Callers limit the number and check that the viewer can see them.
    pub(crate) async fn find_with_issues(
        &self,
        keys: impl Iterator<Item = &RepositoryKey>,
        with_pulls: bool,
        viewer: &Viewer,
    ) -> Result<Vec<IssueRepository>, DbError> {
        let (mut ids, mut names) = (BTreeSet::new(), BTreeSet::new());
        for key in keys {
            match key {
                RepositoryKey::Id(id) => drop(ids.insert(id.0)),
                RepositoryKey::Name { owner, name } => drop(names.insert((owner.as_str(), name.as_str()))),
            }
        }
        let mut found = Vec::new();
        if !ids.is_empty() {
            let query = by_ids(ids, with_pulls, viewer);
            found = self.db.all(query.sql(), query.args()).await?;
        }
        if !names.is_empty() {
            let query = by_names(names, with_pulls, viewer);
            found.extend(self.db.all::<IssueRepository>(query.sql(), query.args()).await?);
        }
        Ok(found)
    }
}
