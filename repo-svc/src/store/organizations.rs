//! Organizations.
//!
//! Not here: their members (`memberships`) and teams (`teams`).

use ferrite_kit::args;
use ferrite_kit::db::{Db, DbError, Query, Tx};
use ferrite_kit::page::Page;
use ferrite_proto::id::UserId;

use super::organization_role::{OrganizationRole, push_role};
use super::quotas::COUNT_OWNED;
use super::sql::{Locking, locking};
use crate::error::RepoError;
use crate::model::{CheckedOrganization, OrganizationChange, changed_fields, lookup_key};

const COLUMNS: &str = "SELECT u.id, u.name, u.full_name, u.description, u.website, u.location, ";
const COUNT: &str = "SELECT COUNT(*)";
const NAME: &str = "SELECT name FROM users WHERE id = $1 AND kind = 'organization'";
const OWNERS_TEAM_NAME: &str = "Owners";
const INSERT: &str = "INSERT INTO users \
     (kind, name, name_key, full_name, full_name_key, email, is_admin, is_active, created_us, description, website, location) \
     VALUES ('organization', $1, $2, $3, $4, '', $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING RETURNING id";
const INSERT_OWNERS_TEAM: &str = "INSERT INTO teams (organization_id, name, name_key, description, level, created_us) \
     VALUES ($1, $2, $3, '', 4, $4)";
/// Lock for changes of an organization, its members and its teams.
const LOCK: Locking = locking!("SELECT id FROM users WHERE id = $1 AND kind = 'organization'", " FOR UPDATE");
const UPDATE: &str = "UPDATE users SET full_name = $2, full_name_key = $3, description = $4, website = $5, location = $6 \
     WHERE id = $1 AND kind = 'organization'";
const DELETE: &str = "DELETE FROM users WHERE id = $1 AND kind = 'organization'";

/// An organization, and the role of one viewer in it.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub(crate) struct Organization {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) full_name: String,
    pub(crate) description: String,
    pub(crate) website: String,
    pub(crate) location: String,
    role: i32,
}

impl Organization {
    /// Returns the id of its account.
    pub(crate) fn id(&self) -> UserId {
        UserId(self.id)
    }

    /// Returns the role of the viewer that the row was read for.
    pub(crate) fn role(&self) -> OrganizationRole {
        OrganizationRole::from_number(self.role)
    }
}

/// Store of organizations and their members.
#[derive(Clone, Debug)]
pub(crate) struct OrganizationStore {
    pub(super) db: Db,
}

/// Begins a query of organizations with the role of `viewer` in each.
fn rows(viewer: Option<UserId>) -> Query {
    let mut query = Query::new(COLUMNS);
    push_role(&mut query, "u.id", viewer);
    query
}

impl OrganizationStore {
    /// Creates the store over `db`.
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// Returns the name of an organization.
    pub(crate) async fn name(&self, tx: &mut Tx, id: UserId) -> Result<Option<String>, DbError> {
        let row: Option<(String,)> = tx.optional(NAME, &args![id]).await?;
        Ok(row.map(|(name,)| name))
    }

    /// Returns the organization with a name, read for `viewer`.
    pub(crate) async fn find(&self, name: &str, viewer: Option<UserId>) -> Result<Option<Organization>, DbError> {
        let Some(key) = lookup_key(name) else { return Ok(None) };
        let mut query = rows(viewer);
        query.push(" FROM users u WHERE u.kind = 'organization' AND u.name_key = ").bind(key);
        self.db.optional(query.sql(), query.args()).await
    }

    /// Returns a page of the organizations that `member` belongs to, as far as `which` selects them, ordered by id and read for
    /// `viewer`, and their total number.
    pub(crate) async fn list(
        &self,
        member: UserId,
        viewer: Option<UserId>,
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
                    query.bind(viewer.map_or(0, |user| user.0)).push("))");
                }
            }
        };
        let mut rows = rows(viewer);
        filter(&mut rows);
        rows.push(" ORDER BY u.id LIMIT ").bind(page.size()).push(" OFFSET ").bind(page.offset());
        let mut count = Query::new(COUNT);
        filter(&mut count);
        let (total,): (i64,) = self.db.one(count.sql(), count.args()).await?;
        Ok((self.db.all(rows.sql(), rows.args()).await?, total))
    }

    /// Creates an organization whose team of owners has the member `owner`, in the transaction of the caller. Returns the
    /// organization, read for `viewer`.
    ///
    /// # Errors
    /// [`RepoError::UserExists`] if the name is taken, [`RepoError::UserNotFound`] if the owner was deleted, or those of the
    /// database.
    pub(crate) async fn insert(
        &self,
        tx: &mut Tx,
        new: &CheckedOrganization,
        owner: UserId,
        viewer: Option<UserId>,
        now_us: i64,
    ) -> Result<Organization, RepoError> {
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

    /// Locks the organization, its members and its teams against other changes until the transaction ends. Returns `false` if the
    /// organization was deleted.
    pub(crate) async fn lock(&self, tx: &mut Tx, id: UserId) -> Result<bool, DbError> {
        Ok(tx.optional::<(i64,)>(LOCK.sql(tx), &args![id]).await?.is_some())
    }

    /// Returns the organization, read for `viewer` within a transaction.
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

    /// Changes a locked organization, which was read as `old` after the lock. Returns the names of the fields that changed.
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
        let fields = changed_fields([
            ("full_name", full_name != old.full_name),
            ("description", description != old.description),
            ("website", website != old.website),
            ("location", location != old.location),
        ]);
        if !fields.is_empty() {
            let args = args![old.id, full_name, full_name.to_lowercase(), description, website, location];
            tx.execute(UPDATE, &args).await?;
        }
        Ok(fields)
    }

    /// Deletes a locked organization with its memberships and teams.
    ///
    /// # Errors
    /// [`RepoError::OwnsRepositories`] if it owns any, or those of the database.
    pub(crate) async fn delete(&self, tx: &mut Tx, id: UserId) -> Result<(), RepoError> {
        // Unfinished ones as well, because the sweeper needs their rows.
        let (owned,): (i64,) = tx.one(COUNT_OWNED, &args![id]).await?;
        if owned > 0 {
            return Err(RepoError::OwnsRepositories);
        }
        tx.execute(DELETE, &args![id]).await?;
        Ok(())
    }
}

/// The memberships of a user that a list shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MembershipFilter {
    /// All memberships.
    All,
    /// Public memberships, and those in organizations that the viewer is a member of.
    PublicAndShared,
    /// Public memberships.
    Public,
}
