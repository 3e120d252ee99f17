//! SSH keys of users. `key_fingerprints` claims their fingerprints, and `key_lookup` finds the
//! holder of a key.

use ferrite_core::page::Page;
use ferrite_db::args;
use ferrite_db::{Db, DbError, Tx};
use ferrite_proto::id::{PublicKeyId, TokenId, UserId};
use ferrite_rpc::auth::AuthError;

use super::key_fingerprints::{KeyKind, claim_key, release_key};
use crate::error::RepoError;
use crate::model::{SshKey, Title};

const LIST: &str = "SELECT k.id, k.user_id, k.content, k.title, k.fingerprint, k.created_us, k.token_id, t.name AS token_name \
     FROM public_keys k LEFT JOIN access_tokens t ON t.id = k.token_id WHERE k.user_id = $1 ORDER BY k.id LIMIT $2 OFFSET $3";
const COUNT: &str = "SELECT COUNT(*) FROM public_keys WHERE user_id = $1";
const FIND: &str = "SELECT k.id, k.user_id, k.content, k.title, k.fingerprint, k.created_us, k.token_id, t.name AS token_name \
     FROM public_keys k LEFT JOIN access_tokens t ON t.id = k.token_id WHERE k.user_id = $1 AND k.id = $2";
const FIND_OF_ANY_USER: &str = "SELECT k.id, k.user_id, k.content, k.title, k.fingerprint, k.created_us, k.token_id, t.name AS token_name \
     FROM public_keys k LEFT JOIN access_tokens t ON t.id = k.token_id WHERE k.id = $1";
const INSERT: &str = "INSERT INTO public_keys (user_id, fingerprint, content, title, title_key, created_us, token_id) \
     VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING RETURNING id";
const DELETE: &str = "DELETE FROM public_keys WHERE user_id = $1 AND id = $2 AND ($3 = 0 OR token_id = $3) \
     RETURNING title, fingerprint";

#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub(crate) struct PublicKeyRow {
    pub(crate) id: i64,
    pub(crate) user_id: i64,
    /// Type, base64 and comment.
    pub(crate) content: String,
    pub(crate) title: String,
    pub(crate) fingerprint: String,
    pub(crate) created_us: i64,
    /// The token whose limits apply to the key; `None` if there is none.
    pub(crate) token_id: Option<i64>,
    pub(crate) token_name: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub(crate) struct RemovedKey {
    pub(crate) title: String,
    pub(crate) fingerprint: String,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct NewPublicKey<'a> {
    /// Unique per user.
    pub(crate) title: &'a Title,
    pub(crate) key: &'a SshKey,
    /// The token whose limits apply to the key; `None` if there is none.
    pub(crate) token: Option<TokenId>,
}

#[derive(Clone, Debug)]
pub(crate) struct PublicKeyTable {
    db: Db,
}

impl PublicKeyTable {
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// Returns a page of keys, ordered by id, and the total.
    pub(crate) async fn list(&self, user: UserId, page: Page) -> Result<(Vec<PublicKeyRow>, i64), DbError> {
        let rows = self.db.all(LIST, &args![user, page.size(), page.offset()]).await?;
        let (count,): (i64,) = self.db.one(COUNT, &args![user]).await?;
        Ok((rows, count))
    }

    pub(crate) async fn find(&self, user: UserId, id: PublicKeyId) -> Result<Option<PublicKeyRow>, DbError> {
        self.db.optional(FIND, &args![user, id]).await
    }

    pub(crate) async fn find_of_any_user(&self, id: PublicKeyId) -> Result<Option<PublicKeyRow>, DbError> {
        self.db.optional(FIND_OF_ANY_USER, &args![id]).await
    }

    /// Adds a key. Fails with [`AuthError::BadCredentials`] if the token was deleted in the
    /// meantime.
    pub(crate) async fn insert(
        &self,
        tx: &mut Tx,
        user: UserId,
        new: NewPublicKey<'_>,
        now_us: i64,
    ) -> Result<PublicKeyRow, RepoError> {
        let NewPublicKey { title, key, token } = new;
        claim_key(tx, key.fingerprint(), KeyKind::User).await?;
        let bound_to = token.map(|token| token.0);
        let args = args![user, key.fingerprint(), key.as_str(), title.as_str(), title.key(), now_us, bound_to];
        match tx.optional::<(i64,)>(INSERT, &args).await {
            Ok(Some((id,))) => Ok(tx.one(FIND, &args![user, PublicKeyId(id)]).await?),
            Ok(None) => Err(RepoError::KeyTitleUsed(title.as_str().to_owned())),
            Err(error) if error.is_foreign_key() && token.is_some() => Err(AuthError::BadCredentials.into()),
            Err(error) if error.is_foreign_key() => Err(RepoError::UserNotFound),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the removed key; `None` if there is none. With `only_of`, only removes a key bound
    /// to that token.
    pub(crate) async fn delete(
        &self,
        tx: &mut Tx,
        user: UserId,
        id: PublicKeyId,
        only_of: Option<TokenId>,
    ) -> Result<Option<RemovedKey>, DbError> {
        let args = args![user, id, only_of.map_or(0, |token| token.0)];
        let row: Option<RemovedKey> = tx.optional(DELETE, &args).await?;
        if let Some(row) = &row {
            release_key(tx, &row.fingerprint).await?;
        }
        Ok(row)
    }
}
