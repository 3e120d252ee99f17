//! Organizations, their members and their owners.

use ferrite_core::page::Page;
use ferrite_db::args;
use ferrite_db::{Db, DbError, Query, Tx};
use ferrite_proto::Permission;
use ferrite_proto::id::UserId;

use super::quotas::{COUNT_CREATED, COUNT_OWNED, OwnerLimits, check_organizations};
use super::sql::{Locking, level_from_number, locking, or_missing};
use super::visibility;
use crate::access::Viewer;
use crate::error::RepoError;
use crate::model::{CheckedOrganization, OrganizationChange, User, Visibility, changed_fields, lookup_key};

const COLUMNS: &str = "SELECT u.id, u.name, u.full_name, u.description, u.website, u.location, u.visibility, \
     u.admins_change_teams, ";
const COUNT: &str = "SELECT COUNT(*)";
/// The owners team leads to each organization, because most accounts are users.
const ALL: &str = " FROM teams o JOIN users u ON u.id = o.organization_id WHERE o.level = 4";
const HIGHEST_LEVEL: &str = "SELECT MAX(t.level) FROM team_members m JOIN teams t ON t.id = m.team_id \
     WHERE t.organization_id = $1 AND m.user_id = $2";
const NAME: &str = "SELECT name FROM users WHERE id = $1 AND kind = 'organization'";
const OWNERS_TEAM_NAME: &str = "Owners";
const INSERT: &str = "INSERT INTO users \
     (kind, name, name_key, full_name, full_name_key, email, is_admin, is_active, created_us, description, website, location, \
     creator_id, visibility, admins_change_teams) \
     VALUES ('organization', $1, $2, $3, $4, '', $5, $6, $7, $8, $9, $10, $11, $12, $13) ON CONFLICT DO NOTHING RETURNING id";
/// Serializes creations for one user, so that the limit holds. Transactions that only refer to the
/// user do not wait.
const LOCK_CREATOR: Locking =
    locking!("SELECT is_admin, organization_limit FROM users WHERE id = $1", " FOR NO KEY UPDATE");
const INSERT_OWNERS_TEAM: &str = "INSERT INTO teams (organization_id, name, name_key, description, level, created_us) \
     VALUES ($1, $2, $3, '', 4, $4)";
/// Lock for changes of an organization, its members and its teams.
const LOCK: Locking = locking!("SELECT id FROM users WHERE id = $1 AND kind = 'organization'", " FOR UPDATE");
const UPDATE: &str = "UPDATE users SET full_name = $2, full_name_key = $3, description = $4, website = $5, location = $6, \
     visibility = $7, admins_change_teams = $8 WHERE id = $1 AND kind = 'organization'";
const DELETE: &str = "DELETE FROM users WHERE id = $1 AND kind = 'organization'";

const MEMBER_COLUMNS: &str = "SELECT u.id, u.kind, u.name, u.full_name, u.email, u.is_admin";
const FIND_MEMBERSHIP: &str = "SELECT b.is_public, CASE WHEN EXISTS (SELECT 1 FROM team_members m JOIN teams t ON t.id = m.team_id \
     WHERE t.organization_id = b.organization_id AND t.level = 4 AND m.user_id = b.user_id) THEN 1 ELSE 0 END AS is_owner \
     FROM memberships b WHERE b.organization_id = $1 AND b.user_id = $2";
const JOIN: &str = "INSERT INTO memberships (organization_id, user_id, is_public, created_us) VALUES ($1, $2, $3, $4) \
     ON CONFLICT DO NOTHING";
const SET_VISIBILITY: &str =
    "UPDATE memberships SET is_public = $3 WHERE organization_id = $1 AND user_id = $2 AND is_public <> $3";
const LEAVE_TEAMS: &str = "DELETE FROM team_members WHERE user_id = $2 \
     AND team_id IN (SELECT id FROM teams WHERE organization_id = $1)";
const LEAVE: &str = "DELETE FROM memberships WHERE organization_id = $1 AND user_id = $2";
const ADD_OWNER: &str = "INSERT INTO team_members (team_id, user_id, created_us) \
     SELECT id, $2, $3 FROM teams WHERE organization_id = $1 AND level = 4 ON CONFLICT DO NOTHING";
const REMOVE_OWNER: &str = "DELETE FROM team_members WHERE user_id = $2 \
     AND team_id IN (SELECT id FROM teams WHERE organization_id = $1 AND level = 4)";
const OTHER_OWNER: &str = "SELECT m.user_id FROM teams t JOIN team_members m ON m.team_id = t.id \
     WHERE t.organization_id = $1 AND t.level = 4 AND m.user_id <> $2 LIMIT 1";

/// An organization, and the role of one viewer in it.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub(crate) struct Organization {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) full_name: String,
    pub(crate) description: String,
    pub(crate) website: String,
    pub(crate) location: String,
    pub(super) visibility: i64,
    /// Administrators of its repositories may add and remove its teams.
    pub(crate) admins_change_teams: bool,
    pub(super) role: i32,
}

impl Organization {
    pub(crate) fn id(&self) -> UserId {
        UserId(self.id)
    }

    pub(crate) fn visibility(&self) -> Visibility {
        Visibility::from_number(self.visibility)
    }

    /// The role of the viewer that the row was read for.
    pub(crate) fn role(&self) -> OrganizationRole {
        OrganizationRole::from_number(self.role)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OrganizationRole {
    /// Not a member.
    Outsider,
    Member,
    /// A member of a team that may create repositories.
    Creator,
    /// A member of the owners team.
    Owner,
}

impl OrganizationRole {
    /// Decodes the column of [`push_role`].
    pub(super) fn from_number(number: i32) -> Self {
        match number {
            3 => Self::Owner,
            2 => Self::Creator,
            1 => Self::Member,
            _ => Self::Outsider,
        }
    }
}

/// Which memberships of a user to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MembershipFilter {
    All,
    /// Public ones, and those in organizations that the viewer belongs to.
    PublicAndShared,
    Public,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Membership {
    /// Visible to non-members.
    pub(crate) is_public: bool,
    /// In the owners team.
    pub(crate) is_owner: bool,
}

impl Membership {
    fn of((is_public, is_owner): (bool, i32)) -> Self {
        Self { is_public, is_owner: is_owner == 1 }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct OrganizationTable {
    pub(super) db: Db,
}

/// Begins a query with the role of `viewer` in each organization.
fn rows(viewer: Option<UserId>) -> Query {
    let mut query = Query::new(COLUMNS);
    push_role(&mut query, "u.id", viewer);
    query
}

/// Adds the column `role`: the role of `viewer` as a number of [`OrganizationRole`]. `organization`
/// is an expression for the organization's id.
pub(super) fn push_role(query: &mut Query, organization: &'static str, viewer: Option<UserId>) {
    let viewer = viewer.map_or(0, |user| user.0);
    query
        .push(
            "CASE WHEN EXISTS (SELECT 1 FROM team_members m JOIN teams w ON w.id = m.team_id \
             WHERE w.level = 4 AND w.organization_id = ",
        )
        .push(organization)
        .push(" AND m.user_id = ")
        .bind(viewer)
        .push(
            ") THEN 3 WHEN EXISTS (SELECT 1 FROM team_members m JOIN teams w ON w.id = m.team_id \
             WHERE w.can_create_repositories AND w.organization_id = ",
        )
        .push(organization)
        .push(" AND m.user_id = ")
        .bind(viewer)
        .push(") THEN 2 WHEN EXISTS (SELECT 1 FROM memberships m WHERE m.organization_id = ")
        .push(organization)
        .push(" AND m.user_id = ")
        .bind(viewer)
        .push(") THEN 1 ELSE 0 END AS role");
}

impl OrganizationTable {
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    pub(crate) async fn name(&self, tx: &mut Tx, id: UserId) -> Result<Option<String>, DbError> {
        let row: Option<(String,)> = tx.optional(NAME, &args![id]).await?;
        Ok(row.map(|(name,)| name))
    }

    /// Returns `None` also for an organization that the viewer cannot see.
    pub(crate) async fn find(&self, name: &str, viewer: &Viewer) -> Result<Option<Organization>, DbError> {
        let Some(key) = lookup_key(name) else { return Ok(None) };
        let mut query = rows(viewer.user());
        query.push(" FROM users u WHERE u.kind = 'organization' AND u.name_key = ").bind(key);
        visibility::only_seen(&mut query, "u", viewer);
        self.db.optional(query.sql(), query.args()).await
    }

    /// Returns a page of the organizations `member` belongs to and that the viewer can see,
    /// filtered by `which`, ordered by id and read for `viewer`, and the total.
    pub(crate) async fn list(
        &self,
        member: UserId,
        viewer: &Viewer,
        which: MembershipFilter,
        page: Page,
    ) -> Result<(Vec<Organization>, i64), DbError> {
        let filter = |query: &mut Query| {
            query.push(" FROM memberships b JOIN users u ON u.id = b.organization_id WHERE b.user_id = ").bind(member);
            match which {
                MembershipFilter::All => {}
                MembershipFilter::Public => {
                    query.push(" AND b.is_public");
                }
                MembershipFilter::PublicAndShared => {
                    query.push(" AND (b.is_public OR EXISTS (SELECT 1 FROM memberships s ");
                    query.push("WHERE s.organization_id = b.organization_id AND s.user_id = ");
                    query.bind(viewer.user().map_or(0, |user| user.0)).push("))");
                }
            }
            visibility::only_seen(query, "u", viewer);
        };
        let mut rows = rows(viewer.user());
        filter(&mut rows);
        rows.push(" ORDER BY u.id LIMIT ").bind(page.size()).push(" OFFSET ").bind(page.offset());
        let mut count = Query::new(COUNT);
        filter(&mut count);
        let (total,): (i64,) = self.db.one(count.sql(), count.args()).await?;
        Ok((self.db.all(rows.sql(), rows.args()).await?, total))
    }

    /// Creates an organization owned by `owner`, in the caller's transaction, and returns it, read
    /// for `viewer`. Site administrators can own any number, others as many as their own limit or
    /// `limits` allow.
    pub(crate) async fn insert(
        &self,
        tx: &mut Tx,
        new: &CheckedOrganization,
        owner: UserId,
        viewer: Option<UserId>,
        limits: OwnerLimits,
        now_us: i64,
    ) -> Result<Organization, RepoError> {
        let creator: Option<(bool, Option<i64>)> = tx.optional(LOCK_CREATOR.sql(tx), &args![owner]).await?;
        let (is_admin, own_limit) = creator.ok_or(RepoError::UserNotFound)?;
        if !is_admin {
            let (used,): (i64,) = tx.one(COUNT_CREATED, &args![owner]).await?;
            check_organizations(own_limit, limits, used)?;
        }
        let args = args![
            new.username.as_str(),
            new.username.key(),
            new.full_name.as_str(),
            new.full_name.key(),
            false,
            true,
            now_us,
            new.description.as_str(),
            new.website.as_str(),
            new.location.as_str(),
            owner,
            new.visibility.number(),
            new.admins_change_teams,
        ];
        let Some((id,)) = tx.optional::<(i64,)>(INSERT, &args).await? else {
            return Err(RepoError::UserExists(new.username.as_str().to_owned()));
        };
        let id = UserId(id);
        tx.execute(INSERT_OWNERS_TEAM, &args![id, OWNERS_TEAM_NAME, OWNERS_TEAM_NAME.to_ascii_lowercase(), now_us])
            .await?;
        self.join(tx, id, owner, now_us).await?;
        self.add_owner(tx, id, owner, now_us).await?;
        self.reload(tx, id, viewer).await?.ok_or(RepoError::OrganizationNotFound)
    }

    /// Locks the organization, its members and its teams until the transaction ends. Returns
    /// `false` if it was deleted.
    pub(crate) async fn lock(&self, tx: &mut Tx, id: UserId) -> Result<bool, DbError> {
        Ok(tx.optional::<(i64,)>(LOCK.sql(tx), &args![id]).await?.is_some())
    }

    pub(crate) async fn reload(
        &self,
        tx: &mut Tx,
        id: UserId,
        viewer: Option<UserId>,
    ) -> Result<Option<Organization>, DbError> {
        let mut query = rows(viewer);
        query.push(" FROM users u WHERE u.kind = 'organization' AND u.id = ").bind(id);
        tx.optional(query.sql(), query.args()).await
    }

    /// Changes a locked organization. `old` must have been read under the lock. Returns the names
    /// of the changed fields.
    pub(crate) async fn update(
        &self,
        tx: &mut Tx,
        old: &Organization,
        change: &OrganizationChange,
    ) -> Result<Vec<&'static str>, DbError> {
        let full_name = change.full_name.as_ref().map_or(old.full_name.as_str(), |name| name.as_str());
        let description = change.description.as_ref().map_or(old.description.as_str(), |text| text.as_str());
        let website = change.website.as_deref().unwrap_or(&old.website);
        let location = change.location.as_deref().unwrap_or(&old.location);
        let visibility = change.visibility.unwrap_or(old.visibility());
        let admins_change_teams = change.admins_change_teams.unwrap_or(old.admins_change_teams);
        let fields = changed_fields([
            ("full_name", full_name != old.full_name),
            ("description", description != old.description),
            ("website", website != old.website),
            ("location", location != old.location),
            ("visibility", visibility != old.visibility()),
            ("repo_admin_change_team_access", admins_change_teams != old.admins_change_teams),
        ]);
        if !fields.is_empty() {
            let args = args![
                old.id,
                full_name,
                full_name.to_lowercase(),
                description,
                website,
                location,
                visibility.number(),
                admins_change_teams,
            ];
            tx.execute(UPDATE, &args).await?;
        }
        Ok(fields)
    }

    /// Deletes a locked organization with its memberships and teams. Fails if it owns repositories.
    pub(crate) async fn delete(&self, tx: &mut Tx, id: UserId) -> Result<(), RepoError> {
        // Count unfinished ones too: the sweeper needs their rows.
        let (owned,): (i64,) = tx.one(COUNT_OWNED, &args![id]).await?;
        if owned > 0 {
            return Err(RepoError::OwnsRepositories);
        }
        tx.execute(DELETE, &args![id]).await?;
        Ok(())
    }

    /// Returns a page of all organizations that the viewer can see, ordered by id and read for
    /// `viewer`, and the total.
    pub(crate) async fn list_all(&self, viewer: &Viewer, page: Page) -> Result<(Vec<Organization>, i64), DbError> {
        let (mut rows, mut count) = (rows(viewer.user()), Query::new(COUNT));
        for query in [&mut rows, &mut count] {
            query.push(ALL);
            visibility::only_seen(query, "u", viewer);
        }
        rows.push(" ORDER BY u.id LIMIT ").bind(page.size()).push(" OFFSET ").bind(page.offset());
        let (total,): (i64,) = self.db.one(count.sql(), count.args()).await?;
        Ok((self.db.all(rows.sql(), rows.args()).await?, total))
    }

    /// Returns the highest level of the user's teams in the organization.
    pub(crate) async fn highest_level(&self, id: UserId, user: UserId) -> Result<Permission, DbError> {
        let (level,): (Option<i64>,) = self.db.one(HIGHEST_LEVEL, &args![id, user]).await?;
        Ok(level_from_number(level))
    }
}

/// Members. Lock the organization in the same transaction before changing them.
impl OrganizationTable {
    /// Returns a page of members, ordered by id, and the total.
    pub(crate) async fn members(&self, id: UserId, only_public: bool, page: Page) -> Result<(Vec<User>, i64), DbError> {
        let filtered = |start: &'static str| {
            let mut query = Query::new(start);
            query.push(" FROM memberships b JOIN users u ON u.id = b.user_id WHERE b.organization_id = ").bind(id);
            if only_public {
                query.push(" AND b.is_public");
            }
            query
        };
        let mut rows = filtered(MEMBER_COLUMNS);
        rows.push(" ORDER BY u.id LIMIT ").bind(page.size()).push(" OFFSET ").bind(page.offset());
        let count = filtered(COUNT);
        let (total,): (i64,) = self.db.one(count.sql(), count.args()).await?;
        Ok((self.db.all(rows.sql(), rows.args()).await?, total))
    }

    /// Returns `None` if the user is not a member.
    pub(crate) async fn membership(&self, id: UserId, user: UserId) -> Result<Option<Membership>, DbError> {
        Ok(self.db.optional(FIND_MEMBERSHIP, &args![id, user]).await?.map(Membership::of))
    }

    pub(crate) async fn membership_in(
        &self,
        tx: &mut Tx,
        id: UserId,
        user: UserId,
    ) -> Result<Option<Membership>, DbError> {
        Ok(tx.optional(FIND_MEMBERSHIP, &args![id, user]).await?.map(Membership::of))
    }

    /// Adds a user with a private membership. Returns `false` if the user is already a member.
    pub(crate) async fn join(&self, tx: &mut Tx, id: UserId, user: UserId, now_us: i64) -> Result<bool, RepoError> {
        let joined = tx.execute(JOIN, &args![id, user, false, now_us]).await;
        Ok(joined.map_err(or_missing(RepoError::UserNotFound))? == 1)
    }

    /// Adds a member to the owners team.
    pub(crate) async fn add_owner(&self, tx: &mut Tx, id: UserId, user: UserId, now_us: i64) -> Result<(), RepoError> {
        let added = tx.execute(ADD_OWNER, &args![id, user, now_us]).await;
        added.map(drop).map_err(or_missing(RepoError::UserNotFound))
    }

    /// Removes a member from the owners team. Fails if there is no other owner.
    pub(crate) async fn remove_owner(&self, tx: &mut Tx, id: UserId, user: UserId) -> Result<(), RepoError> {
        self.require_other_owner(tx, id, user).await?;
        tx.execute(REMOVE_OWNER, &args![id, user]).await?;
        Ok(())
    }

    /// Fails unless the organization has an owner other than `user`.
    pub(crate) async fn require_other_owner(&self, tx: &mut Tx, id: UserId, user: UserId) -> Result<(), RepoError> {
        let other: Option<(i64,)> = tx.optional(OTHER_OWNER, &args![id, user]).await?;
        other.map(|_| ()).ok_or(RepoError::LastOwner)
    }

    /// Makes a membership public or private. Returns `false` if it already was.
    pub(crate) async fn set_visibility(
        &self,
        tx: &mut Tx,
        id: UserId,
        user: UserId,
        is_public: bool,
    ) -> Result<bool, DbError> {
        Ok(tx.execute(SET_VISIBILITY, &args![id, user, is_public]).await? == 1)
    }

    /// Removes a user from the organization and its teams. Returns `false` if the user is not a
    /// member. Fails if no owner would be left.
    pub(crate) async fn leave(&self, tx: &mut Tx, id: UserId, user: UserId) -> Result<bool, RepoError> {
        let Some(membership) = self.membership_in(tx, id, user).await? else { return Ok(false) };
        if membership.is_owner {
            self.require_other_owner(tx, id, user).await?;
        }
        tx.execute(LEAVE_TEAMS, &args![id, user]).await?;
        tx.execute(LEAVE, &args![id, user]).await?;
        Ok(true)
    }
}
