use std::collections::HashMap;
use std::sync::Arc;

use ferrite_kit::args;
use ferrite_kit::db::{Db, DbError, Query, QueryCache, Tx};
use ferrite_kit::page::Page;
use ferrite_proto::id::UserId;

use super::search::{self, Searched};
use crate::RepoError;
use crate::model::{CheckedUser, Email, SearchText, User};

/// Answers that are remembered as long as nothing changes, and how many accounts such a one may be asked for: the authors of a page
/// of a log, which many ask for. That is a few tens of kilobytes each.
const REMEMBERED: u64 = 256;
const ASKED_AGAIN: usize = 100;
const INSERT: &str = "INSERT INTO users \
     (kind, name, name_key, full_name, full_name_key, email, email_key, password_hash, is_admin, is_active, created_us) \
     VALUES ('user', $1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING \
     RETURNING id, kind, name, full_name, email, is_admin";
const NAME_IS_TAKEN: &str = "SELECT id FROM users WHERE name_key = $1";
const ADD_EMAIL: &str = "INSERT INTO emails (user_id, email, email_key, created_us) VALUES ($1, $2, $3, $4) \
     ON CONFLICT DO NOTHING";
const ADD_TEXT: &str = "INSERT INTO users_text (rowid, name_key, full_name_key) VALUES ($1, $2, $3)";
/// After the ids of a page.
const SEARCH: &str = ") SELECT u.id, u.kind, u.name, u.full_name, u.email, u.is_admin FROM page g CROSS JOIN users u \
     WHERE u.id = g.id ORDER BY u.id";
const SEARCHED: Searched = Searched {
    postgres: [" AND (name_key LIKE ", " ESCAPE '!' OR full_name_key LIKE ", " ESCAPE '!')"],
    sqlite: " AND id IN (SELECT rowid FROM users_text WHERE users_text MATCH ",
    short_postgres: [" AND (strpos(name_key, ", ") > 0 OR strpos(full_name_key, ", ") > 0)"],
    short_sqlite: [" AND (instr(name_key, ", ") > 0 OR instr(full_name_key, ", ") > 0)"],
};
const FIND: &str = "SELECT id, kind, name, full_name, email, is_admin FROM users WHERE name_key = $1";
const FIND_MANY: &str = "SELECT id, kind, name, full_name, email, is_admin FROM users WHERE id IN ";
const LOGIN: &str = "SELECT id, kind, name, full_name, email, is_admin, is_active, password_hash FROM users \
     WHERE (name_key = $1 OR id = (SELECT user_id FROM emails WHERE email_key = $1)) AND kind = 'user'";
const EMAIL_OWNERS: &str = "SELECT email_key, user_id FROM emails WHERE email_key IN ";
/// Held until the transaction ends: whoever changes the account then finds what was made meanwhile. SQLite's writer excludes others
/// by itself.
const HOLD_PASSWORD: &str = "SELECT id FROM users WHERE id = $1 AND password_hash = $2 AND is_active FOR SHARE";
const IS_PASSWORD: &str = "SELECT id FROM users WHERE id = $1 AND password_hash = $2 AND is_active";
const ANY: &str = "SELECT id FROM users LIMIT 1";
/// Two first starts at once must not both find an empty table. SQLite's writer excludes others by itself.
const FIRST_TURN: &str =
    "SELECT CAST(1 AS BIGINT) FROM (SELECT pg_advisory_xact_lock(hashtext('ferrite.first-user'))) AS turn";
const NO_TURN: &str = "SELECT 1";

#[derive(Debug, sqlx::FromRow)]
pub(super) struct UserRow {
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

/// Accounts that somebody asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Asked {
    /// By id.
    pub(crate) ids: Vec<i64>,
    /// By folded name.
    pub(crate) name_keys: Vec<String>,
    /// By folded address.
    pub(crate) email_keys: Vec<String>,
}

impl Asked {
    fn len(&self) -> usize {
        self.ids.len() + self.name_keys.len() + self.email_keys.len()
    }
}

/// The accounts that there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Each once, by id.
    pub(crate) users: Vec<User>,
    /// Whose account each of the folded addresses belongs to; those of nobody are left out.
    pub(crate) email_owners: HashMap<String, i64>,
}

/// Users and organizations.
#[derive(Clone, Debug)]
pub(crate) struct AccountStore {
    db: Db,
    found: QueryCache<Asked, Arc<Found>>,
}

impl AccountStore {
    /// The accounts in `db`.
    pub(crate) fn new(db: Db) -> Self {
        Self { db, found: QueryCache::new(REMEMBERED) }
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
            user.full_name.key(),
            user.email.as_str(),
            user.email.key(),
            password_hash,
            user.is_admin,
            true,
            now_us,
        ];
        if let Some(row) = tx.optional::<UserRow>(INSERT, &args).await? {
            let email = args![row.id, user.email.as_str(), user.email.key(), now_us];
            if tx.execute(ADD_EMAIL, &email).await? == 0 {
                return Err(RepoError::EmailUsed);
            }
            self.index(tx, row.id, &user.username.key(), &user.full_name.key()).await?;
            return Ok(row.into());
        }
        let taken: Option<(i64,)> = tx.optional(NAME_IS_TAKEN, &args![user.username.key()]).await?;
        Err(match taken {
            Some(_) => RepoError::UserExists(user.username.as_str().to_owned()),
            None => RepoError::EmailUsed,
        })
    }

    /// Makes the names of an account searchable; PostgreSQL's index sees to that by itself.
    async fn index(&self, tx: &mut Tx, id: i64, name_key: &str, full_name_key: &str) -> Result<(), DbError> {
        if tx.pick(false, true) {
            tx.execute(ADD_TEXT, &args![id, name_key, full_name_key]).await?;
        }
        Ok(())
    }

    /// A page of the users whose names the search finds, by id, and how many there are in all.
    pub(crate) async fn search(&self, text: &SearchText, page: Page) -> Result<(Vec<User>, i64), DbError> {
        let filtered = |start: &'static str| {
            let mut query = Query::new(start);
            query.push("SELECT id FROM users WHERE kind = 'user'");
            search::only_found(&mut query, &self.db, &SEARCHED, text);
            query
        };
        let mut rows = filtered(search::found(text.is_indexed()));
        rows.push("), page AS (SELECT id FROM found ORDER BY id LIMIT ").bind(page.size()).push(" OFFSET ");
        rows.bind(page.offset()).push(SEARCH);
        let mut count = filtered("SELECT COUNT(*) FROM (");
        count.push(") AS found");
        let (total,): (i64,) = self.db.one(count.sql(), count.args()).await?;
        let rows: Vec<UserRow> = self.db.all(rows.sql(), rows.args()).await?;
        Ok((rows.into_iter().map(User::from).collect(), total))
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

    /// The accounts that `asked` names.
    pub(crate) async fn find_many(&self, asked: Asked) -> Result<Arc<Found>, DbError> {
        let ask = self.look_up(&asked);
        if asked.len() > ASKED_AGAIN {
            return ask.await;
        }
        self.found.get_or_query(&self.db, asked.clone(), ask).await
    }

    async fn look_up(&self, asked: &Asked) -> Result<Arc<Found>, DbError> {
        let mut query = Query::new(FIND_MANY);
        query.bind_list(asked.ids.iter().copied());
        query.push(" OR name_key IN ").bind_list(&asked.name_keys);
        query.push(" OR id IN (SELECT user_id FROM emails WHERE email_key IN ").bind_list(&asked.email_keys).push(")");
        query.push(" ORDER BY id");
        let rows: Vec<UserRow> = self.db.all(query.sql(), query.args()).await?;
        let users = rows.into_iter().map(User::from).collect();
        let mut found = Found { users, email_owners: HashMap::new() };
        if !asked.email_keys.is_empty() {
            let mut query = Query::new(EMAIL_OWNERS);
            query.bind_list(&asked.email_keys);
            let rows: Vec<(String, i64)> = self.db.all(query.sql(), query.args()).await?;
            found.email_owners = rows.into_iter().collect();
        }
        Ok(Arc::new(found))
    }

    /// The user who signs in as `login`, a name or an address, or `None`.
    pub(crate) async fn login(&self, login: &str) -> Result<Option<Login>, DbError> {
        let row: Option<LoginRow> = self.db.optional(LOGIN, &args![Email::lookup_key(login)]).await?;
        Ok(row.map(|row| Login { user: row.user.into(), is_active: row.is_active, password_hash: row.password_hash }))
    }

    /// Whether a user may sign in with the password of this hash, which stays so until the transaction ends.
    pub(crate) async fn is_password(&self, tx: &mut Tx, user: UserId, hash: &str) -> Result<bool, DbError> {
        let sql = tx.pick(HOLD_PASSWORD, IS_PASSWORD);
        Ok(tx.optional::<(i64,)>(sql, &args![user, hash]).await?.is_some())
    }
}
