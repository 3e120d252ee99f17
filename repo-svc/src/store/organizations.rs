use ferrite_kit::args;
use ferrite_kit::db::{Db, DbError, Query, Tx};
use ferrite_kit::page::Page;
use ferrite_proto::id::UserId;

use super::{Standing, push_standing};
use crate::RepoError;
use crate::model::{CheckedOrganization, OrganizationChange};

const COLUMNS: &str = "SELECT u.id, u.name, u.full_name, u.description, u.website, u.location, ";
const COUNT: &str = "SELECT COUNT(*)";
const OWNERS: &str = "Owners";
const INSERT: &str = "INSERT INTO users \
     (kind, name, name_key, full_name, full_name_key, email, is_admin, is_active, created_us, description, website, location) \
     VALUES ('organization', $1, $2, $3, $4, '', $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING RETURNING id";
const INSERT_OWNERS: &str = "INSERT INTO teams (organization_id, name, name_key, description, level, created_us) \
     VALUES ($1, $2, $3, '', 4, $4)";
/// Whatever changes an organization, its members or its teams takes turns. SQLite's writer excludes others by itself.
const TURN: &str = "SELECT id FROM users WHERE id = $1 AND kind = 'organization' FOR UPDATE";
const NO_TURN: &str = "SELECT id FROM users WHERE id = $1 AND kind = 'organization'";
const UPDATE: &str = "UPDATE users SET full_name = $2, full_name_key = $3, description = $4, website = $5, location = $6 \
     WHERE id = $1 AND kind = 'organization'";
/// Those that are half made count as well: their row is what the sweeper removes them by.
const COUNT_OWNED: &str = "SELECT COUNT(*) FROM repositories WHERE owner_id = $1";
const DELETE: &str = "DELETE FROM users WHERE id = $1 AND kind = 'organization'";

/// An organization, and what one viewer is to it.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub(crate) struct Organization {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) full_name: String,
    pub(crate) description: String,
    pub(crate) website: String,
    pub(crate) location: String,
    standing: i32,
}

impl Organization {
    /// Its account.
    pub(crate) fn id(&self) -> UserId {
        UserId(self.id)
    }

    /// What the viewer it was read for is to it.
    pub(crate) fn standing(&self) -> Standing {
        Standing::from_number(self.standing)
    }
}

/// Organizations and their members.
#[derive(Clone, Debug)]
pub(crate) struct OrganizationStore {
    pub(super) db: Db,
}

/// The organizations as rows for `viewer`.
fn rows(viewer: Option<UserId>) -> Query {
    let mut query = Query::new(COLUMNS);
    push_standing(&mut query, "u.id", viewer);
    query
}

impl OrganizationStore {
    /// The organizations in `db`.
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// The organization with the folded name `key`, as it is to `viewer`, or `None`.
    pub(crate) async fn find(&self, key: &str, viewer: Option<UserId>) -> Result<Option<Organization>, DbError> {
        let mut query = rows(viewer);
        query.push(" FROM users u WHERE u.kind = 'organization' AND u.name_key = ").bind(key);
        self.db.optional(query.sql(), query.args()).await
    }

    /// A page of the organizations that `member` may be seen to belong to, by id, as they are to `viewer`, and how many there are in all.
    pub(crate) async fn list(
        &self,
        member: UserId,
        viewer: Option<UserId>,
        seen: Seen,
        page: Page,
    ) -> Result<(Vec<Organization>, i64), DbError> {
        let filter = |query: &mut Query| {
            query.push(" FROM memberships b JOIN users u ON u.id = b.organization_id WHERE b.user_id = ").bind(member);
            match seen {
                Seen::All => {}
                Seen::Public => {
                    query.push(" AND b.is_public");
                }
                Seen::PublicAndShared => {
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

    /// Makes an organization with a team of owners that holds `owner`, in the transaction of the caller, and returns it as it is to
    /// `viewer`.
    ///
    /// # Errors
    /// [`RepoError::UserExists`] when the name is taken, [`RepoError::UserNotFound`] when the owner is gone.
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
        tx.execute(INSERT_OWNERS, &args![id, OWNERS, OWNERS.to_ascii_lowercase(), now_us]).await?;
        self.join(tx, id, owner, now_us).await?;
        self.make_owner(tx, id, owner, now_us).await?;
        self.reload(tx, id, viewer).await?.ok_or(RepoError::OrganizationNotFound)
    }

    /// Waits for other changes of the organization, of its members and of its teams, and holds new ones off until the transaction
    /// ends. `false` when it is gone.
    pub(crate) async fn lock(&self, tx: &mut Tx, id: UserId) -> Result<bool, DbError> {
        let turn = tx.pick(TURN, NO_TURN);
        Ok(tx.optional::<(i64,)>(turn, &args![id]).await?.is_some())
    }

    /// The organization as it is to `viewer`, within a transaction, or `None`.
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

    /// Changes an organization that is locked and was `old` then. Returns the names of the fields that are different now.
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
        let fields: Vec<_> = [
            ("full_name", full_name != old.full_name),
            ("description", description != old.description),
            ("website", website != old.website),
            ("location", location != old.location),
        ]
        .into_iter()
        .filter_map(|(field, is_changed)| is_changed.then_some(field))
        .collect();
        if !fields.is_empty() {
            let args = args![old.id, full_name, full_name.to_lowercase(), description, website, location];
            tx.execute(UPDATE, &args).await?;
        }
        Ok(fields)
    }

    /// Deletes an organization that is locked, with its memberships and teams.
    ///
    /// # Errors
    /// [`RepoError::OwnsRepositories`] while it owns any.
    pub(crate) async fn delete(&self, tx: &mut Tx, id: UserId) -> Result<(), RepoError> {
        let (owned,): (i64,) = tx.one(COUNT_OWNED, &args![id]).await?;
        if owned > 0 {
            return Err(RepoError::OwnsRepositories);
        }
        tx.execute(DELETE, &args![id]).await?;
        Ok(())
    }
}

/// Which memberships of somebody a list may show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// All of them.
    All,
    /// Those in organizations of the viewer, and public ones.
    PublicAndShared,
    /// Public ones.
    Public,
}
