//! Changes and deletions of users. Transactions lock the user's row when they read it.

use ferrite_db::args;
use ferrite_db::{DbError, Tx};
use ferrite_proto::id::UserId;
use ferrite_proto::repo::Identity;
use ferrite_rpc::auth::{AuthError, TokenHash};

use super::accounts::{AccountTable, index, unindex};
use super::key_fingerprints::release_user_keys;
use super::profiles::drop_unverified;
use super::sql::{Locking, locking, or_taken};
use super::stars_and_watches::subtract_user;
use crate::error::RepoError;
use crate::model::{User, Visibility, changed_fields, lookup_key};

const LOCK_USER: Locking = locking!(
    "SELECT id, name, name_key, full_name, email, website, location, description, hides_activity, is_active, is_admin, \
     repository_limit \
     FROM users WHERE name_key = $1 AND kind = 'user'",
    " FOR UPDATE"
);
const USER: &str = "SELECT id, name, name_key, full_name, email, website, location, description, hides_activity, is_active, \
     is_admin, repository_limit FROM users WHERE id = $1 AND kind = 'user'";
/// Lock for transactions that may remove an administrator, so that two concurrent ones cannot
/// remove the last two.
const LOCK_ADMINISTRATORS_POSTGRES: &str =
    "SELECT CAST(1 AS BIGINT) FROM (SELECT pg_advisory_xact_lock(hashtext('ferrite.administrators'))) AS lock";
const LOCK_ADMINISTRATORS_SQLITE: &str = "SELECT 1";
const OTHER_ADMINISTRATOR: &str =
    "SELECT id FROM users WHERE kind = 'user' AND is_admin AND is_active AND id <> $1 LIMIT 1";
const UPDATE: &str = "UPDATE users SET full_name = $2, full_name_key = $3, email = $4, email_key = $5, website = $6, \
     location = $7, is_active = $8, is_admin = $9, repository_limit = $10, \
     password_hash = COALESCE($11, password_hash), description = $12, hides_activity = $13 WHERE id = $1";
const REMOVE_EMAIL: &str = "DELETE FROM emails WHERE user_id = $1 AND email_key = $2";
/// Also succeeds if the user already has the address; it becomes the primary one.
const ADD_EMAIL: &str = "INSERT INTO emails (user_id, email, email_key, created_us) VALUES ($1, $2, $3, $4) \
     ON CONFLICT (email_key) DO UPDATE SET email = excluded.email WHERE emails.user_id = excluded.user_id";
const TOKENS: &str = "SELECT hash FROM access_tokens WHERE user_id = $1";
/// Sessions are proof of the password.
const END_SESSIONS: &str = "DELETE FROM access_tokens WHERE user_id = $1 AND is_session";
const OWNS: &str = "SELECT id FROM repositories WHERE owner_id = $1 LIMIT 1";
const BELONGS: &str = "SELECT organization_id FROM memberships WHERE user_id = $1 LIMIT 1";
const NAME: &str = "SELECT name FROM users WHERE id = $1 AND kind = 'user'";
const DELETE: &str = "DELETE FROM users WHERE id = $1";

/// The columns that an administrator or the user can change.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub(crate) struct UserRecord {
    pub(crate) id: i64,
    pub(crate) name: String,
    /// Case-folded.
    pub(crate) name_key: String,
    pub(crate) full_name: String,
    pub(crate) email: String,
    pub(crate) website: String,
    pub(crate) location: String,
    pub(crate) description: String,
    pub(crate) hides_activity: bool,
    pub(crate) is_active: bool,
    pub(crate) is_admin: bool,
    /// `None` means the site's limit.
    pub(crate) repository_limit: Option<i64>,
}

impl UserRecord {
    pub(crate) fn id(&self) -> UserId {
        UserId(self.id)
    }

    /// The names of the fields that differ, without the password.
    pub(crate) fn changes(&self, after: &Self) -> Vec<&'static str> {
        changed_fields([
            ("email", self.email != after.email),
            ("full_name", self.full_name != after.full_name),
            ("website", self.website != after.website),
            ("location", self.location != after.location),
            ("description", self.description != after.description),
            ("hide_activity", self.hides_activity != after.hides_activity),
            ("is_active", self.is_active != after.is_active),
            ("is_admin", self.is_admin != after.is_admin),
            ("repository_limit", self.repository_limit != after.repository_limit),
        ])
    }

    fn is_administrator(&self) -> bool {
        self.is_admin && self.is_active
    }
}

impl From<UserRecord> for User {
    fn from(row: UserRecord) -> Self {
        Self {
            id: row.id(),
            username: row.name,
            full_name: row.full_name,
            email: row.email,
            is_organization: false,
            is_admin: row.is_admin,
            visibility: Visibility::Public,
        }
    }
}

impl AccountTable {
    pub(crate) async fn record(&self, user: UserId) -> Result<Option<UserRecord>, DbError> {
        self.db.optional(USER, &args![user]).await
    }
}

/// Locks the set of administrators until the transaction ends. Call it before [`lock_user`] in a
/// transaction that may remove one.
pub(crate) async fn lock_administrators(tx: &mut Tx) -> Result<(), DbError> {
    let sql = tx.pick(LOCK_ADMINISTRATORS_POSTGRES, LOCK_ADMINISTRATORS_SQLITE);
    tx.one::<(i64,)>(sql, &[]).await.map(drop)
}

/// Returns the user with the folded name `key` and locks the row until the transaction ends; `None`
/// if there is none, or for an organization.
pub(crate) async fn lock_user(tx: &mut Tx, key: &str) -> Result<Option<UserRecord>, DbError> {
    tx.optional(LOCK_USER.sql(tx), &args![key]).await
}

/// Locks the account of a caller, as [`lock_user`]. Fails if it was disabled or deleted since the
/// caller was authenticated.
pub(crate) async fn lock_own_user(tx: &mut Tx, caller: &Identity) -> Result<UserRecord, RepoError> {
    let found = match lookup_key(&caller.username) {
        Some(key) => lock_user(tx, &key).await?,
        None => None,
    };
    let own = found.filter(|user| user.id == caller.user_id && user.is_active);
    own.ok_or_else(|| AuthError::BadCredentials.into())
}

pub(crate) async fn user_name(tx: &mut Tx, user: UserId) -> Result<Option<String>, DbError> {
    let row: Option<(String,)> = tx.optional(NAME, &args![user]).await?;
    Ok(row.map(|(name,)| name))
}

/// Returns the token hashes of a locked user. No transaction can add tokens meanwhile.
pub(crate) async fn token_hashes(tx: &mut Tx, user: UserId) -> Result<Vec<TokenHash>, DbError> {
    let rows: Vec<(Vec<u8>,)> = tx.all(TOKENS, &args![user]).await?;
    Ok(rows.into_iter().filter_map(|(hash,)| hash.try_into().ok()).map(TokenHash).collect())
}

/// Changes a locked user, and the password if `password_hash` is given. A new password and the
/// disabling of the account end all sessions. Fails if no administrator would be left.
pub(crate) async fn change_user(
    tx: &mut Tx,
    before: &UserRecord,
    after: &UserRecord,
    password_hash: Option<String>,
    now_us: i64,
) -> Result<(), RepoError> {
    if before.is_administrator() && !after.is_administrator() {
        require_other_administrator(tx, before.id()).await?;
    }
    let ends_sessions = password_hash.is_some() || !after.is_active;
    let (key, old_key) = (after.email.to_lowercase(), before.email.to_lowercase());
    let full_name_key = after.full_name.to_lowercase();
    let args = args![
        before.id,
        after.full_name.as_str(),
        full_name_key.as_str(),
        after.email.as_str(),
        key.as_str(),
        after.website.as_str(),
        after.location.as_str(),
        after.is_active,
        after.is_admin,
        after.repository_limit,
        password_hash,
        after.description.as_str(),
        after.hides_activity,
    ];
    // Write the account before its addresses, like account creation does, so that this waits for a
    // concurrent creation with the same address instead of deadlocking.
    tx.execute(UPDATE, &args).await.map_err(or_taken(|| RepoError::EmailUsed))?;
    if ends_sessions {
        tx.execute(END_SESSIONS, &args![before.id]).await?;
    }
    if after.email != before.email {
        if key != old_key {
            tx.execute(REMOVE_EMAIL, &args![before.id, old_key]).await?;
        }
        if tx.execute(ADD_EMAIL, &args![before.id, after.email.as_str(), key.as_str(), now_us]).await? == 0 {
            return Err(RepoError::EmailUsed);
        }
        drop_unverified(tx, &key).await?;
    }
    if after.full_name != before.full_name {
        unindex(tx, before.id()).await?;
        index(tx, before.id(), &before.name_key, &full_name_key).await?;
    }
    Ok(())
}

/// Deletes a locked user and all rows that belong to the user. Fails if the user owns repositories,
/// belongs to organizations, or is the last administrator.
pub(crate) async fn delete_user(tx: &mut Tx, user: &UserRecord) -> Result<(), RepoError> {
    if user.is_administrator() {
        require_other_administrator(tx, user.id()).await?;
    }
    if tx.optional::<(i64,)>(OWNS, &args![user.id]).await?.is_some() {
        return Err(RepoError::OwnsRepositories);
    }
    if tx.optional::<(i64,)>(BELONGS, &args![user.id]).await?.is_some() {
        return Err(RepoError::BelongsToOrganizations);
    }
    release_user_keys(tx, user.id()).await?;
    subtract_user(tx, user.id()).await?;
    tx.execute(DELETE, &args![user.id]).await?;
    Ok(unindex(tx, user.id()).await?)
}

async fn require_other_administrator(tx: &mut Tx, user: UserId) -> Result<(), RepoError> {
    match tx.optional::<(i64,)>(OTHER_ADMINISTRATOR, &args![user]).await? {
        Some(_) => Ok(()),
        None => Err(RepoError::LastAdministrator),
    }
}
