use ferrite_kit::args;
use ferrite_kit::auth::TokenHash;
use ferrite_kit::db::{Db, DbError};
use ferrite_kit::page::Page;
use ferrite_proto::id::{TokenId, UserId};
use ferrite_proto::repo::Identity;

use crate::model::TokenName;

const IDENTITY: &str = "SELECT t.id AS token_id, u.id AS user_id, u.name, u.full_name, u.email, u.is_admin \
     FROM access_tokens t JOIN users u ON u.id = t.user_id WHERE t.hash = $1 AND u.is_active";
const INSERT: &str = "INSERT INTO access_tokens (user_id, hash, name, name_key, digest, created_us) \
     VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING RETURNING id, name, digest, created_us";
const LIST: &str =
    "SELECT id, name, digest, created_us FROM access_tokens WHERE user_id = $1 ORDER BY id DESC LIMIT $2 OFFSET $3";
const COUNT: &str = "SELECT COUNT(*) FROM access_tokens WHERE user_id = $1";
const DELETE_BY_NAME: &str = "DELETE FROM access_tokens WHERE user_id = $1 AND name_key = $2 RETURNING hash";
const DELETE_BY_ID: &str = "DELETE FROM access_tokens WHERE user_id = $1 AND id = $2 RETURNING hash";

/// Digits of the digest that lists show: as long as a token, and half of its hash, so it opens nothing.
const DIGEST_DIGITS: usize = 40;

#[derive(Debug, sqlx::FromRow)]
struct IdentityRow {
    token_id: i64,
    user_id: i64,
    name: String,
    full_name: String,
    email: String,
    is_admin: bool,
}

/// An access token as its owner sees it.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub(crate) struct TokenRow {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) digest: String,
    pub(crate) created_us: i64,
}

/// Access tokens.
#[derive(Clone, Debug)]
pub(crate) struct TokenStore {
    db: Db,
}

impl TokenStore {
    /// The tokens in `db`.
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// The identity behind the token with this hash, or `None` when there is no such token or its owner is disabled.
    pub(crate) async fn identity(&self, hash: &TokenHash) -> Result<Option<Identity>, DbError> {
        let row: Option<IdentityRow> = self.db.optional(IDENTITY, &args![hash.0.as_slice()]).await?;
        Ok(row.map(|row| Identity {
            user_id: row.user_id,
            username: row.name,
            full_name: row.full_name,
            email: row.email,
            is_admin: row.is_admin,
            token_id: row.token_id,
        }))
    }

    /// Records a token, or returns `None` when the user has one of that name.
    pub(crate) async fn insert(
        &self,
        user: UserId,
        name: &TokenName,
        hash: &TokenHash,
        now_us: i64,
    ) -> Result<Option<TokenRow>, DbError> {
        let mut digest = hash.to_hex();
        digest.truncate(DIGEST_DIGITS);
        let args = args![user, hash.0.as_slice(), name.as_str(), name.key(), digest, now_us];
        let mut tx = self.db.begin().await?;
        let row = tx.optional(INSERT, &args).await?;
        tx.commit().await?;
        Ok(row)
    }

    /// A page of the user's tokens, newest first, and how many there are in all.
    pub(crate) async fn list(&self, user: UserId, page: Page) -> Result<(Vec<TokenRow>, i64), DbError> {
        let rows = self.db.all(LIST, &args![user, page.size(), page.offset()]).await?;
        let (count,): (i64,) = self.db.one(COUNT, &args![user]).await?;
        Ok((rows, count))
    }

    /// Deletes the user's token with this name, else the one with this id in decimal. Returns its hash, or `None` when there is
    /// none.
    pub(crate) async fn delete(&self, user: UserId, name: &str) -> Result<Option<TokenHash>, DbError> {
        let mut tx = self.db.begin().await?;
        let mut row: Option<(Vec<u8>,)> = tx.optional(DELETE_BY_NAME, &args![user, name.to_lowercase()]).await?;
        if row.is_none()
            && let Ok(id) = name.parse::<i64>()
        {
            row = tx.optional(DELETE_BY_ID, &args![user, TokenId(id)]).await?;
        }
        tx.commit().await?;
        Ok(row.and_then(|(hash,)| hash.try_into().ok()).map(TokenHash))
    }
}
