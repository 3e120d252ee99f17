//! Sessions: rows of the tokens' table that a password made. Their identities are looked up as
//! those of tokens.

use ferrite_core::page::Page;
use ferrite_db::args;
use ferrite_db::{Db, DbError, Tx};
use ferrite_proto::Scopes;
use ferrite_proto::id::{TokenId, UserId};
use ferrite_rpc::auth::TokenHash;

const INSERT: &str = "INSERT INTO access_tokens (user_id, hash, name, name_key, digest, created_us, scopes, expire_us, last_use_us, \
     is_session, user_agent, address) VALUES ($1, $2, $3, $3, $4, $5, $6, $7, $5, $8, $9, $10) \
     RETURNING id, created_us, expire_us, last_use_us, user_agent, address";
const LIST: &str = "SELECT id, created_us, expire_us, last_use_us, user_agent, address FROM access_tokens \
     WHERE user_id = $1 AND is_session AND expire_us > $2 AND last_use_us > $3 ORDER BY last_use_us DESC, id DESC LIMIT $4 OFFSET $5";
const COUNT: &str =
    "SELECT COUNT(*) FROM access_tokens WHERE user_id = $1 AND is_session AND expire_us > $2 AND last_use_us > $3";
const DELETE: &str = "DELETE FROM access_tokens WHERE user_id = $1 AND id = $2 AND is_session RETURNING hash";
/// Leaves the ones used last. SQLite knows no offset without a limit.
const MAKE_ROOM: &str = "DELETE FROM access_tokens WHERE id IN (SELECT id FROM access_tokens WHERE user_id = $1 AND is_session \
     ORDER BY last_use_us DESC, id DESC LIMIT 1000 OFFSET $2) RETURNING hash";
/// Deleted per transaction, so that no writer waits long.
const MAX_PURGED_ROWS: i64 = 200;
/// Skips rows that another replica is deleting.
const PURGE_POSTGRES: &str = "DELETE FROM access_tokens WHERE id IN (SELECT id FROM access_tokens WHERE is_session \
     AND (expire_us <= $1 OR last_use_us <= $2) ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED) RETURNING id";
const PURGE_SQLITE: &str = "DELETE FROM access_tokens WHERE id IN (SELECT id FROM access_tokens WHERE is_session \
     AND (expire_us <= $1 OR last_use_us <= $2) ORDER BY id LIMIT $3) RETURNING id";

/// Sessions per account.
const MAX_SESSIONS: i64 = 100;
/// Hexadecimal digits of the hash that make the name unique.
const NAME_DIGITS: usize = 40;

/// What a client says about itself when it signs in.
#[derive(Clone, Debug)]
pub(crate) struct NewSession {
    /// At most 200 characters.
    pub(crate) user_agent: String,
    /// At most 64 bytes.
    pub(crate) address: String,
    pub(crate) expire_us: i64,
}

/// A session, without its hash.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub(crate) struct SessionRow {
    pub(crate) id: i64,
    pub(crate) created_us: i64,
    pub(crate) expire_us: i64,
    /// That of its creation at first.
    pub(crate) last_use_us: i64,
    pub(crate) user_agent: String,
    pub(crate) address: String,
}

#[derive(Clone, Debug)]
pub(crate) struct SessionTable {
    db: Db,
    /// A session that was not used for this long has ended.
    idle_us: i64,
}

impl SessionTable {
    pub(crate) fn new(db: Db, idle_us: i64) -> Self {
        Self { db, idle_us }
    }

    fn idle_since(&self, now_us: i64) -> i64 {
        now_us.saturating_sub(self.idle_us)
    }

    /// Stores the hash of a session in the caller's transaction. If the user has as many as are
    /// allowed, it takes the place of those that were used least recently, whose hashes are returned.
    pub(crate) async fn insert(
        &self,
        tx: &mut Tx,
        user: UserId,
        new: &NewSession,
        value: &str,
        now_us: i64,
    ) -> Result<(SessionRow, Vec<TokenHash>), DbError> {
        let ended: Vec<(Vec<u8>,)> = tx.all(MAKE_ROOM, &args![user, MAX_SESSIONS - 1]).await?;
        let hash = TokenHash::of(value);
        let mut digest = hash.to_hex();
        digest.truncate(NAME_DIGITS);
        let args = args![
            user,
            hash.0.as_slice(),
            format!("session:{digest}"),
            digest.as_str(),
            now_us,
            Scopes::all().bits(),
            new.expire_us,
            true,
            new.user_agent.as_str(),
            new.address.as_str(),
        ];
        let row = tx.one(INSERT, &args).await?;
        Ok((row, ended.into_iter().filter_map(|(hash,)| hash.try_into().ok()).map(TokenHash).collect()))
    }

    /// Returns a page of the sessions that have not ended, the last used one first, and the total.
    pub(crate) async fn list(&self, user: UserId, page: Page, now_us: i64) -> Result<(Vec<SessionRow>, i64), DbError> {
        let idle = self.idle_since(now_us);
        let rows = self.db.all(LIST, &args![user, now_us, idle, page.size(), page.offset()]).await?;
        let (count,): (i64,) = self.db.one(COUNT, &args![user, now_us, idle]).await?;
        Ok((rows, count))
    }

    /// Deletes a session in the caller's transaction. Returns its hash; `None` if the user has none
    /// with this id.
    pub(crate) async fn delete(
        &self,
        tx: &mut Tx,
        user: UserId,
        session: TokenId,
    ) -> Result<Option<TokenHash>, DbError> {
        let row: Option<(Vec<u8>,)> = tx.optional(DELETE, &args![user, session]).await?;
        Ok(row.and_then(|(hash,)| hash.try_into().ok()).map(TokenHash))
    }

    /// Deletes some sessions that have ended, and returns their number; zero if none is left.
    pub(crate) async fn purge(&self, now_us: i64) -> Result<usize, DbError> {
        let args = args![now_us, self.idle_since(now_us), MAX_PURGED_ROWS];
        let sql = self.db.pick(PURGE_POSTGRES, PURGE_SQLITE);
        let deleted: Vec<(i64,)> = self.db.all_relaxed(&[(sql, args.len())], &args).await?;
        Ok(deleted.len())
    }
}
