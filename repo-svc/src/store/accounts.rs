use ferrite_kit::args;
use ferrite_kit::db::{Db, DbError, Query, Tx};
use ferrite_proto::id::UserId;

use crate::RepoError;
use crate::model::{CheckedUser, Email, User};

const INSERT: &str = "INSERT INTO users \
     (kind, name, name_key, full_name, email, email_key, password_hash, is_admin, is_active, created_us) \
     VALUES ('user', $1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING \
     RETURNING id, kind, name, full_name, email, is_admin";
const NAME_IS_TAKEN: &str = "SELECT id FROM users WHERE name_key = $1";
const FIND: &str = "SELECT id, kind, name, full_name, email, is_admin FROM users WHERE name_key = $1";
const FIND_MANY: &str = "SELECT id, kind, name, full_name, email, is_admin FROM users WHERE id IN ";
const LOGIN: &str = "SELECT id, kind, name, full_name, email, is_admin, is_active, password_hash FROM users \
     WHERE (name_key = $1 OR email_key = $1) AND kind = 'user'";
const ANY: &str = "SELECT id FROM users LIMIT 1";
/// Two first starts at once must not both find an empty table. SQLite's writer excludes others by itself.
const FIRST_TURN: &str =
    "SELECT CAST(1 AS BIGINT) FROM (SELECT pg_advisory_xact_lock(hashtext('ferrite.first-user'))) AS turn";
const NO_TURN: &str = "SELECT 1";

#[derive(Debug, sqlx::FromRow)]
struct UserRow {
    id: i64,
    kind: String,
    name: String,
    full_name: String,
    email: String,
    is_admin: bool,
}

impl From<UserRow> for User {
    fn from(row: UserRow) -> Self {
        Self {
            id: UserId(row.id),
            username: row.name,
            full_name: row.full_name,
            email: row.email,
            is_organization: row.kind == "organization",
            is_admin: row.is_admin,
        }
    }
}

#[derive(Debug, sqlx::FromRow)]
struct LoginRow {
    #[sqlx(flatten)]
    user: UserRow,
    is_active: bool,
    password_hash: Option<String>,
}

/// What is known of somebody who signs in by password.
#[derive(Debug)]
pub(crate) struct Login {
    /// The account.
    pub(crate) user: User,
    /// Whether it may sign in at all.
    pub(crate) is_active: bool,
    /// The hash of its password, if it has one.
    pub(crate) password_hash: Option<String>,
}

/// Users and organizations.
#[derive(Clone, Debug)]
pub(crate) struct AccountStore {
    db: Db,
}

impl AccountStore {
    /// The accounts in `db`.
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// Makes an account, in the transaction of the caller.
    ///
    /// # Errors
    /// [`RepoError::UserExists`] or [`RepoError::EmailUsed`] when one of them is taken.
    pub(crate) async fn insert(
        &self,
        tx: &mut Tx,
        user: &CheckedUser,
        password_hash: &str,
        now_us: i64,
    ) -> Result<User, RepoError> {
        let args = args![
            user.username.as_str(),
            user.username.key(),
            user.full_name.as_str(),
            user.email.as_str(),
            user.email.key(),
            password_hash,
            user.is_admin,
            true,
            now_us,
        ];
        if let Some(row) = tx.optional::<UserRow>(INSERT, &args).await? {
            return Ok(row.into());
        }
        let taken: Option<(i64,)> = tx.optional(NAME_IS_TAKEN, &args![user.username.key()]).await?;
        Err(match taken {
            Some(_) => RepoError::UserExists(user.username.as_str().to_owned()),
            None => RepoError::EmailUsed,
        })
    }

    /// Whether there is no account at all, in a transaction that other callers of this wait for.
    pub(crate) async fn is_empty(&self, tx: &mut Tx) -> Result<bool, DbError> {
        let turn = tx.pick(FIRST_TURN, NO_TURN);
        let _: (i64,) = tx.one(turn, &[]).await?;
        Ok(tx.optional::<(i64,)>(ANY, &[]).await?.is_none())
    }

    /// The account with the folded name `key`, or `None`.
    pub(crate) async fn find(&self, key: &str) -> Result<Option<User>, DbError> {
        Ok(self.db.optional::<UserRow>(FIND, &args![key]).await?.map(User::from))
    }

    /// The accounts with any of these ids, folded names or folded addresses, each once, by id; and which of the addresses
    /// belongs to which of them.
    pub(crate) async fn find_many(
        &self,
        ids: &[i64],
        name_keys: &[String],
        email_keys: &[String],
    ) -> Result<Vec<User>, DbError> {
        let mut query = Query::new(FIND_MANY);
        query.bind_list(ids.iter().copied());
        query.push(" OR name_key IN ").bind_list(name_keys);
        query.push(" OR email_key IN ").bind_list(email_keys);
        query.push(" ORDER BY id");
        let rows: Vec<UserRow> = self.db.all(query.sql(), query.args()).await?;
        Ok(rows.into_iter().map(User::from).collect())
    }

    /// The user who signs in as `login`, a name or an address, or `None`.
    pub(crate) async fn login(&self, login: &str) -> Result<Option<Login>, DbError> {
        let row: Option<LoginRow> = self.db.optional(LOGIN, &args![Email::lookup_key(login)]).await?;
        Ok(row.map(|row| Login { user: row.user.into(), is_active: row.is_active, password_hash: row.password_hash }))
    }
}
