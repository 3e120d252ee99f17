use ferrite_core::page::Page;
use ferrite_db::args;
use ferrite_db::{Db, DbError, Query, Tx};
use ferrite_proto::Permission;
use ferrite_proto::id::{RepositoryId, TeamId, UserId};
use ferrite_rpc::auth::AuthError;

use super::organizations::{Organization, OrganizationRole, push_role};
use super::sql::{level_from_number, level_number, or_missing, or_taken};
use crate::error::RepoError;
use crate::model::{CheckedTeam, TeamChange, User, changed_fields, lookup_key};

const COLUMNS: &str = "SELECT t.id, t.organization_id, t.name, t.description, t.level, t.includes_all_repositories, \
     t.can_create_repositories, o.name AS organization, o.full_name AS organization_full_name, \
     o.description AS organization_description, o.website AS organization_website, o.location AS organization_location, \
     o.visibility AS organization_visibility, o.admins_change_teams AS organization_admins_change_teams, ";
const FROM: &str = " FROM teams t JOIN users o ON o.id = t.organization_id WHERE ";
const COUNT: &str = "SELECT COUNT(*) FROM teams WHERE organization_id = $1";
const INSERT: &str = "INSERT INTO teams (organization_id, name, name_key, description, level, created_us, \
     includes_all_repositories, can_create_repositories) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING RETURNING id";
const UPDATE: &str = "UPDATE teams SET name = $2, name_key = $3, description = $4, level = $5, includes_all_repositories = $6, \
     can_create_repositories = $7 WHERE id = $1";
const DELETE: &str = "DELETE FROM teams WHERE id = $1 AND level < 4";

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

/// A team, and the role of one viewer in its organization.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub(crate) struct Team {
    pub(crate) id: i64,
    pub(crate) organization_id: i64,
    pub(crate) name: String,
    pub(crate) description: String,
    level: i64,
    includes_all_repositories: bool,
    can_create_repositories: bool,
    /// Name of its organization.
    pub(crate) organization: String,
    organization_full_name: String,
    organization_description: String,
    organization_website: String,
    organization_location: String,
    organization_visibility: i64,
    organization_admins_change_teams: bool,
    role: i32,
}

impl Team {
    pub(crate) fn id(&self) -> TeamId {
        TeamId(self.id)
    }

    pub(crate) fn organization_id(&self) -> UserId {
        UserId(self.organization_id)
    }

    /// The level of members on the team's repositories.
    pub(crate) fn permission(&self) -> Permission {
        level_from_number(Some(self.level))
    }

    pub(crate) fn is_owners(&self) -> bool {
        self.permission() == Permission::Owner
    }

    /// Whether it has all repositories of the organization, without a row for each.
    pub(crate) fn includes_all_repositories(&self) -> bool {
        self.includes_all_repositories || self.is_owners()
    }

    /// Whether its members may create repositories for the organization.
    pub(crate) fn can_create_repositories(&self) -> bool {
        self.can_create_repositories || self.is_owners()
    }

    /// Its organization, read for the same viewer.
    pub(crate) fn into_organization(self) -> Organization {
        Organization {
            id: self.organization_id,
            name: self.organization,
            full_name: self.organization_full_name,
            description: self.organization_description,
            website: self.organization_website,
            location: self.organization_location,
            visibility: self.organization_visibility,
            admins_change_teams: self.organization_admins_change_teams,
            role: self.role,
        }
    }

    /// The role in the organization of the viewer that the row was read for.
    pub(crate) fn role(&self) -> OrganizationRole {
        OrganizationRole::from_number(self.role)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct TeamTable {
    pub(super) db: Db,
}

/// Begins a query read for `viewer`; a condition follows.
pub(super) fn rows(viewer: Option<UserId>) -> Query {
    let mut query = Query::new(COLUMNS);
    push_role(&mut query, "t.organization_id", viewer);
    query.push(FROM);
    query
}

/// Teams themselves. Lock the organization in the same transaction before changing one.
impl TeamTable {
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    pub(crate) async fn find(&self, id: TeamId, viewer: Option<UserId>) -> Result<Option<Team>, DbError> {
        let mut query = rows(viewer);
        query.push("t.id = ").bind(id);
        self.db.optional(query.sql(), query.args()).await
    }

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

    /// Returns a page of an organization's teams, ordered by id and read for `viewer`, and the
    /// total.
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

    /// Creates a team without members, and returns it, read for `viewer`.
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
            new.includes_all_repositories,
            new.can_create_repositories,
        ];
        let Some((id,)) = tx.optional::<(i64,)>(INSERT, &args).await? else {
            return Err(RepoError::TeamExists(new.name.as_str().to_owned()));
        };
        self.reload(tx, TeamId(id), viewer).await?.ok_or(RepoError::TeamNotFound)
    }

    /// Changes a team. `old` must have been read after locking the organization. Returns the names
    /// of the changed fields. Fails if this changes more than the description of the owners team.
    pub(crate) async fn update(
        &self,
        tx: &mut Tx,
        old: &Team,
        change: &TeamChange,
    ) -> Result<Vec<&'static str>, RepoError> {
        let name = change.name.as_ref().map_or(old.name.as_str(), |name| name.as_str());
        let description = change.description.as_ref().map_or(old.description.as_str(), |text| text.as_str());
        let permission = change.permission.unwrap_or(old.permission());
        let includes_all = change.includes_all_repositories.unwrap_or(old.includes_all_repositories());
        let can_create = change.can_create_repositories.unwrap_or(old.can_create_repositories());
        let fields = changed_fields([
            ("name", name != old.name),
            ("description", description != old.description),
            ("permission", permission != old.permission()),
            ("includes_all_repositories", includes_all != old.includes_all_repositories()),
            ("can_create_org_repo", can_create != old.can_create_repositories()),
        ]);
        if old.is_owners() && fields.iter().any(|field| *field != "description") {
            return Err(RepoError::OwnersTeam);
        }
        if !fields.is_empty() {
            let args = args![
                old.id,
                name,
                name.to_ascii_lowercase(),
                description,
                level_number(permission),
                includes_all,
                can_create,
            ];
            let taken = || RepoError::TeamExists(name.to_owned());
            tx.execute(UPDATE, &args).await.map_err(or_taken(taken))?;
        }
        Ok(fields)
    }

    /// Deletes a team. Fails for the owners team.
    pub(crate) async fn delete(&self, tx: &mut Tx, team: &Team) -> Result<(), RepoError> {
        if team.is_owners() {
            return Err(RepoError::OwnersTeam);
        }
        tx.execute(DELETE, &args![team.id]).await?;
        Ok(())
    }
}

/// Members and repositories of teams. Before changing them, lock the organization and then read the
/// team in the same transaction.
impl TeamTable {
    /// Returns a page of members, ordered by id, and the total.
    pub(crate) async fn members(&self, team: TeamId, page: Page) -> Result<(Vec<User>, i64), DbError> {
        let (total,): (i64,) = self.db.one(COUNT_MEMBERS, &args![team]).await?;
        Ok((self.db.all(MEMBERS, &args![team, page.size(), page.offset()]).await?, total))
    }

    pub(crate) async fn is_member(&self, team: TeamId, user: UserId) -> Result<bool, DbError> {
        Ok(self.db.optional::<(i64,)>(IS_MEMBER, &args![team, user]).await?.is_some())
    }

    pub(crate) async fn has_member(&self, tx: &mut Tx, team: TeamId, user: UserId) -> Result<bool, DbError> {
        Ok(tx.optional::<(i64,)>(IS_MEMBER, &args![team, user]).await?.is_some())
    }

    /// Adds a member of the organization. Returns `false` if the member is already in the team.
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

    /// Returns `false` if the user is not in the team. The caller checks that an owner is left.
    pub(crate) async fn remove_member(&self, tx: &mut Tx, team: TeamId, user: UserId) -> Result<bool, DbError> {
        Ok(tx.execute(REMOVE_MEMBER, &args![team, user]).await? == 1)
    }

    /// Returns the id and exact name of the organization's repository.
    pub(crate) async fn find_repository(
        &self,
        organization: UserId,
        name: &str,
    ) -> Result<Option<(RepositoryId, String)>, DbError> {
        let Some(key) = lookup_key(name) else { return Ok(None) };
        let row: Option<(i64, String)> = self.db.optional(FIND_REPOSITORY, &args![organization, key]).await?;
        Ok(row.map(|(id, name)| (RepositoryId(id), name)))
    }

    pub(crate) async fn holds(&self, team: TeamId, repository: RepositoryId) -> Result<bool, DbError> {
        Ok(self.db.optional::<(i64,)>(HOLDS, &args![team, repository]).await?.is_some())
    }

    /// Returns `false` if the team already has a row for the repository.
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

    /// Returns `false` if the team has no row for the repository.
    pub(crate) async fn remove_repository(
        &self,
        tx: &mut Tx,
        team: TeamId,
        repository: RepositoryId,
    ) -> Result<bool, DbError> {
        Ok(tx.execute(REMOVE_REPOSITORY, &args![team, repository]).await? == 1)
    }
}
