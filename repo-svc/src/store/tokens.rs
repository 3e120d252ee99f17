//! Access tokens: create, list, delete, record the last use, and look up the identity.

use ferrite_core::id_or_name::IdOrName;
use ferrite_core::page::Page;
use ferrite_db::args;
use ferrite_db::{Db, DbError, QueryCache, Tx};
use ferrite_proto::Scopes;
use ferrite_proto::id::{RepositoryId, TokenId, UserId};
use ferrite_proto::repo::Identity;
use ferrite_rpc::auth::TokenHash;

use super::key_fingerprints::release_token_keys;
use super::sql::{Locking, locking};
use crate::model::Title;

const IDENTITY: &str = "SELECT t.id AS token_id, t.scopes, t.expire_us, t.repository_ids, t.is_session, u.id AS user_id, u.name, \
     u.full_name, u.email, u.is_admin FROM access_tokens t JOIN users u ON u.id = t.user_id \
     WHERE t.hash = $1 AND u.is_active AND (t.expire_us = 0 OR t.expire_us > $2) AND (NOT t.is_session OR t.last_use_us > $3)";
const IDENTITY_BY_ID: &str = "SELECT t.id AS token_id, t.scopes, t.expire_us, t.repository_ids, t.is_session, u.id AS user_id, u.name, \
     u.full_name, u.email, u.is_admin FROM access_tokens t JOIN users u ON u.id = t.user_id \
     WHERE t.id = $1 AND u.is_active AND (t.expire_us = 0 OR t.expire_us > $2) AND (NOT t.is_session OR t.last_use_us > $3)";
const INSERT: &str = "INSERT INTO access_tokens (user_id, hash, name, name_key, digest, created_us, scopes, expire_us, repository_ids, \
     last_eight) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING \
     RETURNING id, name, digest, created_us, scopes, expire_us, last_use_us, repository_ids, last_eight";
const LIST: &str = "SELECT id, name, digest, created_us, scopes, expire_us, last_use_us, repository_ids, last_eight FROM access_tokens \
     WHERE user_id = $1 AND NOT is_session ORDER BY id DESC LIMIT $2 OFFSET $3";
const COUNT: &str = "SELECT COUNT(*) FROM access_tokens WHERE user_id = $1 AND NOT is_session";
/// Locks the tokens, so that no key is bound to one after its keys were released.
const LOCK: Locking = locking!(
    "SELECT id, name FROM access_tokens WHERE user_id = $1 AND NOT is_session AND (id = $2 OR name_key = $3) ORDER BY id",
    " FOR UPDATE"
);
const DELETE: &str = "DELETE FROM access_tokens WHERE id = $1 RETURNING name, hash";
const RECORD_USE: &str = "UPDATE access_tokens SET last_use_us = $2 WHERE id = $1 AND last_use_us < $2";
/// Skips locked rows, to avoid deadlocks with deletions of several tokens. A locked row is being
/// deleted, or another replica is writing its last use.
const RECORD_USE_UNLESS_LOCKED: &str = "UPDATE access_tokens SET last_use_us = $2 WHERE id = \
     (SELECT id FROM access_tokens WHERE id = $1 AND last_use_us < $2 FOR UPDATE SKIP LOCKED)";

/// Digits of the digest in lists: as long as a token, but only part of its hash, so it cannot be
/// used to authenticate.
const DIGEST_DIGITS: usize = 40;
/// Uses per SQLite transaction. Other writers wait meanwhile.
const USES_PER_TRANSACTION: usize = 500;
/// Identities cached until the database changes: well below a kilobyte each.
const MAX_CACHED_IDENTITIES: u64 = 10_000;

/// A user and the token that limits the user's rights. The token's columns are `None` for all
/// rights.
#[derive(Debug, sqlx_macros::FromRow)]
pub(super) struct IdentityRow {
    user_id: i64,
    name: String,
    full_name: String,
    email: String,
    is_admin: bool,
    token_id: Option<i64>,
    scopes: Option<i64>,
    expire_us: Option<i64>,
    repository_ids: Option<String>,
    is_session: Option<bool>,
}

impl From<IdentityRow> for Identity {
    fn from(row: IdentityRow) -> Self {
        let is_session = row.is_session.unwrap_or_default();
        let is_bound = row.token_id.is_some() && !is_session;
        let scopes = if is_bound { Scopes::from_bits(row.scopes.unwrap_or_default()) } else { Scopes::all() };
        Self {
            user_id: row.user_id,
            username: row.name,
            full_name: row.full_name,
            email: row.email,
            is_admin: row.is_admin,
            token_id: row.token_id.unwrap_or_default(),
            scopes: scopes.to_proto(),
            expire_us: row.expire_us.unwrap_or_default(),
            is_limited: row.repository_ids.is_some(),
            repository_ids: ids(row.repository_ids.as_deref()),
            is_session,
        }
    }
}

/// Returns the last digits of a token, which are stored and shown. The other 32 of its 40 digits
/// keep it secret.
fn last_eight(token: &str) -> &str {
    token.len().checked_sub(8).and_then(|start| token.get(start..)).unwrap_or_default()
}

/// Parses comma-separated ids. Skips invalid ones, so that a broken list grants less, not more.
fn ids(list: Option<&str>) -> Vec<i64> {
    list.unwrap_or_default().split(',').filter_map(|id| id.parse().ok()).collect()
}

#[derive(Clone, Debug)]
pub(crate) struct NewToken {
    /// Unique per user.
    pub(crate) name: Title,
    pub(crate) scopes: Scopes,
    /// Zero if it does not expire.
    pub(crate) expire_us: i64,
    /// The only private repositories the token can be used for; `None` for all.
    pub(crate) only: Option<Vec<RepositoryId>>,
}

/// An access token, without its hash.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub(crate) struct TokenRow {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) digest: String,
    pub(crate) created_us: i64,
    scopes: i64,
    pub(crate) expire_us: i64,
    pub(crate) last_use_us: i64,
    repository_ids: Option<String>,
    /// Empty for tokens of early versions.
    pub(crate) last_eight: String,
}

impl TokenRow {
    pub(crate) fn scopes(&self) -> Scopes {
        Scopes::from_bits(self.scopes)
    }

    /// The ids of the only private repositories the token can be used for, possibly deleted; `None`
    /// for all.
    pub(crate) fn only(&self) -> Option<Vec<i64>> {
        self.repository_ids.as_deref().map(|list| ids(Some(list)))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeletedToken {
    /// As spelled.
    pub(crate) name: String,
    pub(crate) hash: TokenHash,
    /// SSH keys that were bound to it and deleted with it.
    pub(crate) key_count: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct TokenTable {
    db: Db,
    /// Ends the sessions that were not used for this long.
    session_idle_us: i64,
    cache: QueryCache<TokenHash, Option<Identity>>,
}

impl TokenTable {
    pub(crate) fn new(db: Db, session_idle_us: i64) -> Self {
        Self { db, session_idle_us, cache: QueryCache::new("tokens", MAX_CACHED_IDENTITIES) }
    }

    /// Returns `None` if there is no such token, it has expired, its owner is disabled, or it is a
    /// session that was not used for too long.
    pub(crate) async fn identity(&self, hash: &TokenHash, now_us: i64) -> Result<Option<Identity>, DbError> {
        let identity = self.cache.get_or_query(&self.db, *hash, self.find_identity(hash, now_us)).await?;
        // A cached identity may have expired.
        Ok(identity.filter(|identity| identity.expire_us == 0 || identity.expire_us > now_us))
    }

    async fn find_identity(&self, hash: &TokenHash, now_us: i64) -> Result<Option<Identity>, DbError> {
        let row: Option<IdentityRow> =
            self.db.lookup(IDENTITY, &args![hash.0.as_slice(), now_us, self.idle_since(now_us)]).await?;
        Ok(row.map(Identity::from))
    }

    /// Like [`TokenTable::identity`], by id.
    pub(crate) async fn identity_by_id(&self, token: TokenId, now_us: i64) -> Result<Option<Identity>, DbError> {
        let row: Option<IdentityRow> =
            self.db.lookup(IDENTITY_BY_ID, &args![token, now_us, self.idle_since(now_us)]).await?;
        Ok(row.map(Identity::from))
    }

    fn idle_since(&self, now_us: i64) -> i64 {
        now_us.saturating_sub(self.session_idle_us)
    }

    /// Stores the hash of a token in the caller's transaction. Returns `None` if the user already has one with
    /// this name.
    pub(crate) async fn insert(
        &self,
        tx: &mut Tx,
        user: UserId,
        new: &NewToken,
        token: &str,
        now_us: i64,
    ) -> Result<Option<TokenRow>, DbError> {
        let hash = TokenHash::of(token);
        let mut digest = hash.to_hex();
        digest.truncate(DIGEST_DIGITS);
        let only = new.only.as_ref().map(|only| only.iter().map(|id| id.0.to_string()).collect::<Vec<_>>().join(","));
        let args = args![
            user,
            hash.0.as_slice(),
            new.name.as_str(),
            new.name.key(),
            digest,
            now_us,
            new.scopes.bits(),
            new.expire_us,
            only,
            last_eight(token),
        ];
        tx.optional(INSERT, &args).await
    }

    /// Returns a page of tokens, newest first, and the total.
    pub(crate) async fn list(&self, user: UserId, page: Page) -> Result<(Vec<TokenRow>, i64), DbError> {
        let rows = self.db.all(LIST, &args![user, page.size(), page.offset()]).await?;
        let (count,): (i64,) = self.db.one(COUNT, &args![user]).await?;
        Ok((rows, count))
    }

    /// Deletes a token and the keys bound to it, in the caller's transaction. Returns `None` if
    /// there is none.
    pub(crate) async fn delete(
        &self,
        tx: &mut Tx,
        user: UserId,
        token: IdOrName<'_>,
    ) -> Result<Option<DeletedToken>, DbError> {
        let args = args![user, token.id().unwrap_or_default(), token.name_key()];
        let found: Vec<(i64, String)> = tx.all(LOCK.sql(tx), &args).await?;
        let Some(&(id, _)) = token.find(&found, |(id, name)| (*id, name)) else { return Ok(None) };
        let key_count = release_token_keys(tx, TokenId(id)).await?;
        let row: Option<(String, Vec<u8>)> = tx.optional(DELETE, &args![TokenId(id)]).await?;
        let deleted = |(name, hash): (String, Vec<u8>)| {
            Some(DeletedToken { name, hash: TokenHash(hash.try_into().ok()?), key_count })
        };
        Ok(row.and_then(deleted))
    }

    /// Records last uses (pairs of token id and time). A later time that is already recorded stays.
    pub(crate) async fn record_uses(&self, uses: &[(i64, i64)]) -> Result<(), DbError> {
        for some in uses.chunks(USES_PER_TRANSACTION) {
            let mut tx = self.db.begin().await?;
            let sql = tx.pick(RECORD_USE_UNLESS_LOCKED, RECORD_USE);
            for &(id, used_us) in some {
                tx.execute(sql, &args![TokenId(id), used_us]).await?;
            }
            tx.commit().await?;
        }
        Ok(())
    }
}
