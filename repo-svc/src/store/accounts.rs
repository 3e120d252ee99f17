//! Accounts: creation, lookup and search. Organizations are accounts too.

use std::collections::HashMap;
use std::sync::Arc;

use ferrite_core::page::Page;
use ferrite_db::args;
use ferrite_db::{Db, DbError, Query, QueryCache, Tx};
use ferrite_proto::id::UserId;

use super::profiles::{ADD_VERIFIED, drop_unverified};
use super::search::{self, SearchColumns};
use super::sql::{Locking, locking};
use super::visibility;
use crate::access::Viewer;
use crate::error::RepoError;
use crate::model::{CheckedUser, Email, SearchText, User, Visibility, lookup_key};

/// Cached results of [`AccountTable::find_many`], each at most a few tens of kilobytes. Dropped
/// when the database changes.
const MAX_CACHED_QUERIES: u64 = 256;
/// Results for more accounts are not cached. A page of a repository's log, which many clients
/// request, has fewer authors.
const MAX_CACHED_QUERY_ACCOUNTS: usize = 100;
const INSERT: &str = "INSERT INTO users \
     (kind, name, name_key, full_name, full_name_key, email, email_key, password_hash, is_admin, is_active, created_us) \
     VALUES ('user', $1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING \
     RETURNING id, kind, name, full_name, email, is_admin";
const NAME_IS_TAKEN: &str = "SELECT id FROM users WHERE name_key = $1";
const ADD_TEXT: &str = "INSERT INTO users_text (rowid, name_key, full_name_key) VALUES ($1, $2, $3)";
const REMOVE_TEXT: &str = "DELETE FROM users_text WHERE rowid = $1";
/// Reads the rows of a page; its ids follow.
const SEARCH: &str = ") SELECT u.id, u.kind, u.name, u.full_name, u.email, u.is_admin FROM page g CROSS JOIN users u \
     WHERE u.id = g.id ORDER BY u.id";
pub(super) const SEARCH_COLUMNS: SearchColumns = SearchColumns {
    like: [" AND (name_key LIKE ", " OR full_name_key LIKE ", ")"],
    indexed: " AND id IN (SELECT rowid FROM users_text WHERE users_text MATCH ",
    contains: [
        [" AND (strpos(name_key, ", ") > 0 OR strpos(full_name_key, ", ") > 0)"],
        [" AND (instr(name_key, ", ") > 0 OR instr(full_name_key, ", ") > 0)"],
    ],
};
const FIND: &str = "SELECT u.id, u.kind, u.name, u.full_name, u.email, u.is_admin, u.visibility FROM users u WHERE ";
const FIND_ACTIVE_USER: &str =
    "SELECT id, kind, name, full_name, email, is_admin FROM users WHERE name_key = $1 AND is_active AND kind = 'user'";
/// Parts of the statement of [`AccountTable::find_many`], each with its own index; a list of keys
/// follows.
const FIND_BY_ID: &str = "SELECT id, kind, name, full_name, email, is_admin, visibility, CAST(NULL AS TEXT) AS email_key FROM users WHERE id IN ";
const FIND_BY_NAME: &str = "SELECT id, kind, name, full_name, email, is_admin, visibility, CAST(NULL AS TEXT) AS email_key \
     FROM users WHERE name_key IN ";
const FIND_BY_EMAIL: &str = "SELECT u.id, u.kind, u.name, u.full_name, u.email, u.is_admin, u.visibility, e.email_key FROM emails e \
     JOIN users u ON u.id = e.user_id WHERE e.email_key IN ";
const LOGIN: &str = "SELECT id, kind, name, full_name, email, is_admin, is_active, password_hash FROM users \
     WHERE (name_key = $1 OR id = (SELECT user_id FROM emails WHERE email_key = $1)) AND kind = 'user'";
const LOGIN_BY_ID: &str = "SELECT id, kind, name, full_name, email, is_admin, is_active, password_hash FROM users \
     WHERE id = $1 AND kind = 'user'";
/// Keeps the row locked until the transaction ends, so that a later change of the account sees what
/// this transaction wrote.
const LOCK_PASSWORD: Locking =
    locking!("SELECT id FROM users WHERE id = $1 AND password_hash = $2 AND is_active", " FOR SHARE");
const ANY: &str = "SELECT id FROM users LIMIT 1";
/// Of two concurrent first starts, only one must find an empty table. SQLite has a single writer
/// anyway.
const LOCK_FIRST_USER_POSTGRES: &str =
    "SELECT CAST(1 AS BIGINT) FROM (SELECT pg_advisory_xact_lock(hashtext('ferrite.first-user'))) AS lock";
const LOCK_FIRST_USER_SQLITE: &str = "SELECT 1";

#[derive(Debug, sqlx_macros::FromRow)]
struct UserRow {
    id: i64,
    kind: String,
    name: String,
    full_name: String,
    email: String,
    is_admin: bool,
    /// Statements that read only users leave it out.
    #[sqlx(default)]
    visibility: i64,
}

impl<'r, R: sqlx::Row> sqlx::FromRow<'r, R> for User
where
    UserRow: sqlx::FromRow<'r, R>,
{
    fn from_row(row: &'r R) -> Result<Self, sqlx::Error> {
        let UserRow { id, kind, name, full_name, email, is_admin, visibility } = UserRow::from_row(row)?;
        let is_organization = kind == "organization";
        let visibility = Visibility::from_number(visibility);
        Ok(Self { id: UserId(id), username: name, full_name, email, is_organization, is_admin, visibility })
    }
}

#[derive(Debug, sqlx_macros::FromRow)]
struct FoundRow {
    #[sqlx(flatten)]
    user: User,
    /// The folded address that matched.
    email_key: Option<String>,
}

/// The facts about an account that a password check needs.
#[derive(Debug, sqlx_macros::FromRow)]
pub(crate) struct Login {
    #[sqlx(flatten)]
    pub(crate) user: User,
    pub(crate) is_active: bool,
    /// `None` if the account has no password.
    pub(crate) password_hash: Option<String>,
}

/// Accounts to look up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct AccountQuery {
    pub(crate) ids: Vec<i64>,
    pub(crate) name_keys: Vec<String>,
    pub(crate) email_keys: Vec<String>,
}

impl AccountQuery {
    fn len(&self) -> usize {
        self.ids.len() + self.name_keys.len() + self.email_keys.len()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AccountsFound {
    /// Each account once, ordered by id.
    pub(crate) users: Vec<User>,
    /// Owners by folded e-mail address, without addresses that nobody owns.
    pub(crate) email_owners: HashMap<String, i64>,
    /// Ids of the organizations that are not public.
    hidden: Vec<i64>,
}

/// Returns an account once per key that matched, ordered by id. The query has no arguments if there
/// are no keys.
fn lookup(wanted: &AccountQuery) -> Query {
    let mut query = Query::default();
    let mut is_first = true;
    let mut next_part = |query: &mut Query, sql: &'static str| {
        query.push(if std::mem::take(&mut is_first) { "" } else { " UNION ALL " }).push(sql);
    };
    if !wanted.ids.is_empty() {
        next_part(&mut query, FIND_BY_ID);
        query.bind_list(wanted.ids.iter().copied());
    }
    if !wanted.name_keys.is_empty() {
        next_part(&mut query, FIND_BY_NAME);
        query.bind_list(&wanted.name_keys);
    }
    if !wanted.email_keys.is_empty() {
        next_part(&mut query, FIND_BY_EMAIL);
        query.bind_list(&wanted.email_keys);
    }
    // By position, because with e-mail addresses alone the name is ambiguous between two tables.
    query.push(" ORDER BY 1");
    query
}

#[derive(Clone, Debug)]
pub(crate) struct AccountTable {
    pub(super) db: Db,
    cache: QueryCache<AccountQuery, Arc<AccountsFound>>,
}

impl AccountTable {
    pub(crate) fn new(db: Db) -> Self {
        Self { db, cache: QueryCache::new("accounts", MAX_CACHED_QUERIES) }
    }

    /// Creates an account in the caller's transaction.
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
        if let Some(made) = tx.optional::<User>(INSERT, &args).await? {
            let email = args![made.id, user.email.as_str(), user.email.key(), now_us];
            if tx.execute(ADD_VERIFIED, &email).await? == 0 {
                return Err(RepoError::EmailUsed);
            }
            drop_unverified(tx, &user.email.key()).await?;
            index(tx, made.id, &user.username.key(), &user.full_name.key()).await?;
            return Ok(made);
        }
        let taken: Option<(i64,)> = tx.optional(NAME_IS_TAKEN, &args![user.username.key()]).await?;
        Err(match taken {
            Some(_) => RepoError::UserExists(user.username.as_str().to_owned()),
            None => RepoError::EmailUsed,
        })
    }

    /// Returns a page of matching users, ordered by id, and the total.
    pub(crate) async fn search(&self, text: &SearchText, page: Page) -> Result<(Vec<User>, i64), DbError> {
        let filtered = |start: &'static str| {
            let mut query = Query::new(start);
            query.push("SELECT id FROM users WHERE kind = 'user'");
            search::only_found(&mut query, &self.db, &SEARCH_COLUMNS, text);
            query
        };
        let mut rows = filtered(search::found(text.is_indexed()));
        rows.push("), page AS (SELECT id FROM found ORDER BY id LIMIT ").bind(page.size()).push(" OFFSET ");
        rows.bind(page.offset()).push(SEARCH);
        let mut count = filtered("SELECT COUNT(*) FROM (");
        count.push(") AS found");
        let (total,): (i64,) = self.db.one(count.sql(), count.args()).await?;
        Ok((self.db.all(rows.sql(), rows.args()).await?, total))
    }

    /// Whether there are no accounts at all. Other callers wait until the transaction ends.
    pub(crate) async fn is_empty(&self, tx: &mut Tx) -> Result<bool, DbError> {
        let sql = tx.pick(LOCK_FIRST_USER_POSTGRES, LOCK_FIRST_USER_SQLITE);
        let _: (i64,) = tx.one(sql, &[]).await?;
        Ok(tx.optional::<(i64,)>(ANY, &[]).await?.is_none())
    }

    /// Returns `None` also for an organization that the viewer cannot see.
    pub(crate) async fn find(&self, name: &str, viewer: &Viewer) -> Result<Option<User>, DbError> {
        let Some(key) = lookup_key(name) else { return Ok(None) };
        let mut query = Query::new(FIND);
        query.push("u.name_key = ").bind(key);
        visibility::only_seen(&mut query, "u", viewer);
        self.db.lookup(query.sql(), query.args()).await
    }

    /// Returns `None` if the user or organization is disabled, or hidden from the viewer.
    pub(crate) async fn find_active(&self, id: UserId, viewer: &Viewer) -> Result<Option<User>, DbError> {
        let mut query = Query::new(FIND);
        query.push("u.is_active AND u.id = ").bind(id);
        visibility::only_seen(&mut query, "u", viewer);
        self.db.lookup(query.sql(), query.args()).await
    }

    /// Returns `None` for disabled users and for organizations.
    pub(crate) async fn find_active_user(&self, name: &str) -> Result<Option<User>, DbError> {
        let Some(key) = lookup_key(name) else { return Ok(None) };
        self.db.lookup(FIND_ACTIVE_USER, &args![key]).await
    }

    /// Returns the accounts that exist and that the viewer can see.
    pub(crate) async fn find_many(&self, wanted: AccountQuery, viewer: &Viewer) -> Result<Arc<AccountsFound>, DbError> {
        let query = self.look_up(&wanted);
        let found = match wanted.len() > MAX_CACHED_QUERY_ACCOUNTS {
            true => query.await?,
            false => self.cache.get_or_query(&self.db, wanted.clone(), query).await?,
        };
        if found.hidden.is_empty() {
            return Ok(found);
        }
        let mut query = Query::new("SELECT u.id FROM users u WHERE u.id IN ");
        query.bind_list(found.hidden.iter().copied());
        visibility::only_seen(&mut query, "u", viewer);
        let seen: Vec<(i64,)> = self.db.all(query.sql(), query.args()).await?;
        let mut shown = AccountsFound::clone(&found);
        shown.users.retain(|user| !found.hidden.contains(&user.id.0) || seen.contains(&(user.id.0,)));
        Ok(Arc::new(shown))
    }

    async fn look_up(&self, wanted: &AccountQuery) -> Result<Arc<AccountsFound>, DbError> {
        let mut found = AccountsFound { users: Vec::new(), email_owners: HashMap::new(), hidden: Vec::new() };
        let query = lookup(wanted);
        if query.args().is_empty() {
            return Ok(Arc::new(found));
        }
        let rows: Vec<FoundRow> = self.db.lookup_all(query.sql(), query.args()).await?;
        for FoundRow { user, email_key } in rows {
            found.email_owners.extend(email_key.map(|key| (key, user.id.0)));
            if found.users.last().is_none_or(|last| last.id != user.id) {
                if user.visibility != Visibility::Public {
                    found.hidden.push(user.id.0);
                }
                found.users.push(user);
            }
        }
        Ok(Arc::new(found))
    }

    /// Finds a user by name or e-mail address.
    pub(crate) async fn login(&self, login: &str) -> Result<Option<Login>, DbError> {
        self.db.optional(LOGIN, &args![Email::lookup_key(login)]).await
    }

    pub(crate) async fn login_by_id(&self, user: UserId) -> Result<Option<Login>, DbError> {
        self.db.optional(LOGIN_BY_ID, &args![user]).await
    }

    /// Whether `hash` is the password hash of an active user. It stays so until the transaction
    /// ends.
    pub(crate) async fn is_password(&self, tx: &mut Tx, user: UserId, hash: &str) -> Result<bool, DbError> {
        Ok(tx.optional::<(i64,)>(LOCK_PASSWORD.sql(tx), &args![user, hash]).await?.is_some())
    }
}

/// Adds an account to SQLite's full-text table. PostgreSQL's indexes need no such step.
pub(super) async fn index(tx: &mut Tx, id: UserId, name_key: &str, full_name_key: &str) -> Result<(), DbError> {
    if tx.pick(false, true) {
        tx.execute(ADD_TEXT, &args![id, name_key, full_name_key]).await?;
    }
    Ok(())
}

pub(super) async fn unindex(tx: &mut Tx, id: UserId) -> Result<(), DbError> {
    if tx.pick(false, true) {
        tx.execute(REMOVE_TEXT, &args![id]).await?;
    }
    Ok(())
}
