//! Teams of organizations.
//!
//! Not here: their members and repositories (`team_members`).

use ferrite_kit::args;
use ferrite_kit::db::{Db, DbError, Query, Tx};
use ferrite_kit::page::Page;
use ferrite_proto::Permission;
use ferrite_proto::id::{TeamId, UserId};

use super::organizations::{OrganizationRole, push_role};
use super::sql::{level_from_number, level_number, or_taken};
use crate::error::RepoError;
use crate::model::{CheckedTeam, TeamChange, changed_fields};

const COLUMNS: &str = "SELECT t.id, t.organization_id, t.name, t.description, t.level, o.name AS organization, ";
const FROM: &str = " FROM teams t JOIN users o ON o.id = t.organization_id WHERE ";
const COUNT: &str = "SELECT COUNT(*) FROM teams WHERE organization_id = $1";
const INSERT: &str = "INSERT INTO teams (organization_id, name, name_key, description, level, created_us) \
     VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING RETURNING id";
const UPDATE: &str = "UPDATE teams SET name = $2, name_key = $3, description = $4, level = $5 WHERE id = $1";
const DELETE: &str = "DELETE FROM teams WHERE id = $1 AND level < 4";

/// A team, and the role of one viewer in its organization.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub(crate) struct Team {
    pub(crate) id: i64,
    pub(crate) organization_id: i64,
    pub(crate) name: String,
    pub(crate) description: String,
    level: i64,
    /// The name of its organization.
    pub(crate) organization: String,
    role: i32,
}

impl Team {
    /// Returns the id.
    pub(crate) fn id(&self) -> TeamId {
        TeamId(self.id)
    }

    /// Returns the id of its organization.
    pub(crate) fn organization_id(&self) -> UserId {
        UserId(self.organization_id)
    }

    /// Returns the level of its members on its repositories.
    pub(crate) fn permission(&self) -> Permission {
        level_from_number(Some(self.level))
    }

    /// Returns whether it is the organization's team of owners.
    pub(crate) fn is_owners(&self) -> bool {
        self.permission() == Permission::Owner
    }

    /// Returns the role in the organization of the viewer that the row was read for.
    pub(crate) fn role(&self) -> OrganizationRole {
        OrganizationRole::from_number(self.role)
    }
}

/// Store of teams, their members and their repositories.
#[derive(Clone, Debug)]
pub(crate) struct TeamStore {
    pub(super) db: Db,
}

/// Begins a query of teams, read for `viewer`; a condition follows.
fn rows(viewer: Option<UserId>) -> Query {
    let mut query = Query::new(COLUMNS);
    push_role(&mut query, "t.organization_id", viewer);
    query.push(FROM);
    query
}

/// Teams themselves. Methods that change a team expect that the same transaction locked its organization.
impl TeamStore {
    /// Creates the store over `db`.
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// Returns the team, read for `viewer`.
    pub(crate) async fn find(&self, id: TeamId, viewer: Option<UserId>) -> Result<Option<Team>, DbError> {
        let mut query = rows(viewer);
        query.push("t.id = ").bind(id);
        self.db.optional(query.sql(), query.args()).await
    }

    /// As [`TeamStore::find`], within a transaction.
    pub(crate) async fn reload(
        &self,
        tx: &mut Tx,
        id: TeamId,
        viewer: Option<UserId>,
    ) -> Result<Option<Team>, DbError> {
        let mut query = rows(viewer);
        query.push("t.id = ").bind(id);
        tx.optional(query.sql(), query.args()).await
    }

    /// Returns a page of the teams of an organization, ordered by id and read for `viewer`, and their total number.
    pub(crate) async fn list(
        &self,
        organization: UserId,
        viewer: Option<UserId>,
        page: Page,
    ) -> Result<(Vec<Team>, i64), DbError> {
        let mut query = rows(viewer);
        query.push("t.organization_id = ").bind(organization);
        query.push(" ORDER BY t.id LIMIT ").bind(page.size()).push(" OFFSET ").bind(page.offset());
        let (total,): (i64,) = self.db.one(COUNT, &args![organization]).await?;
        Ok((self.db.all(query.sql(), query.args()).await?, total))
    }

    /// Creates a team without members and returns it, read for `viewer`.
    ///
    /// # Errors
    /// [`RepoError::TeamExists`] if the organization has a team of that name, or those of the database.
    pub(crate) async fn insert(
        &self,
        tx: &mut Tx,
        organization: UserId,
        new: &CheckedTeam,
        viewer: Option<UserId>,
        now_us: i64,
    ) -> Result<Team, RepoError> {
        let args = args![
            organization,
            new.name.as_str(),
            new.name.key(),
            new.description.as_str(),
            level_number(new.permission),
            now_us,
        ];
        let Some((id,)) = tx.optional::<(i64,)>(INSERT, &args).await? else {
            return Err(RepoError::TeamExists(new.name.as_str().to_owned()));
        };
        self.reload(tx, TeamId(id), viewer).await?.ok_or(RepoError::TeamNotFound)
    }

    /// Changes a team, which was read as `old` after its organization was locked. Returns the names of the fields that changed.
    ///
    /// # Errors
    /// [`RepoError::TeamExists`] if the organization has another team of that name, [`RepoError::OwnersTeam`] if name or permission
    /// of the team of owners would change, or those of the database.
    pub(crate) async fn update(
        &self,
        tx: &mut Tx,
        old: &Team,
        change: &TeamChange,
    ) -> Result<Vec<&'static str>, RepoError> {
        let name = change.name.as_ref().map_or(old.name.as_str(), |name| name.as_str());
        let description = change.description.as_ref().map_or(old.description.as_str(), |text| text.as_str());
        let permission = change.permission.unwrap_or(old.permission());
        let (is_renamed, is_level_changed) = (name != old.name, permission != old.permission());
        if old.is_owners() && (is_renamed || is_level_changed) {
            return Err(RepoError::OwnersTeam);
        }
        let fields = changed_fields([
            ("name", is_renamed),
            ("description", description != old.description),
            ("permission", is_level_changed),
        ]);
        if !fields.is_empty() {
            let args = args![old.id, name, name.to_ascii_lowercase(), description, level_number(permission)];
            let taken = || RepoError::TeamExists(name.to_owned());
            tx.execute(UPDATE, &args).await.map_err(or_taken(taken))?;
        }
        Ok(fields)
    }

    /// Deletes a team other than the team of owners.
    ///
    /// # Errors
    /// [`RepoError::OwnersTeam`], or those of the database.
    pub(crate) async fn delete(&self, tx: &mut Tx, team: &Team) -> Result<(), RepoError> {
        if team.is_owners() {
            return Err(RepoError::OwnersTeam);
        }
        tx.execute(DELETE, &args![team.id]).await?;
        Ok(())
    }
}
