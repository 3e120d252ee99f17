//! Public keys of users.
//!
//! Not here: claims on fingerprints (`keys`), and the lookup of a key's holder (`key_lookup`).

use ferrite_kit::args;
use ferrite_kit::db::{Db, DbError, Tx};
use ferrite_kit::page::Page;
use ferrite_proto::id::{PublicKeyId, UserId};

use super::keys::{KeyKind, claim_key, release_key};
use crate::error::RepoError;
use crate::model::{KeyTitle, SshKey};

const LIST: &str = "SELECT id, content, title, fingerprint, created_us FROM public_keys WHERE user_id = $1 \
     ORDER BY id LIMIT $2 OFFSET $3";
const COUNT: &str = "SELECT COUNT(*) FROM public_keys WHERE user_id = $1";
const FIND: &str = "SELECT id, content, title, fingerprint, created_us FROM public_keys WHERE user_id = $1 AND id = $2";
const INSERT: &str = "INSERT INTO public_keys (user_id, fingerprint, content, title, title_key, created_us) \
     VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING RETURNING id, content, title, fingerprint, created_us";
const DELETE: &str = "DELETE FROM public_keys WHERE user_id = $1 AND id = $2 \
     RETURNING id, content, title, fingerprint, created_us";

/// A public key of a user.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub(crate) struct PublicKeyRow {
    pub(crate) id: i64,
    /// Type, base64 and comment.
    pub(crate) content: String,
    pub(crate) title: String,
    pub(crate) fingerprint: String,
    pub(crate) created_us: i64,
}

/// Store of the keys by which users authenticate to git over SSH.
#[derive(Clone, Debug)]
pub(crate) struct PublicKeyStore {
    db: Db,
}

impl PublicKeyStore {
    /// Creates the store over `db`.
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// Returns a page of the user's keys, ordered by id, and their total number.
    pub(crate) async fn list(&self, user: UserId, page: Page) -> Result<(Vec<PublicKeyRow>, i64), DbError> {
        let rows = self.db.all(LIST, &args![user, page.size(), page.offset()]).await?;
        let (count,): (i64,) = self.db.one(COUNT, &args![user]).await?;
        Ok((rows, count))
    }

    /// Returns the user's key with this id.
    pub(crate) async fn find(&self, user: UserId, id: PublicKeyId) -> Result<Option<PublicKeyRow>, DbError> {
        self.db.optional(FIND, &args![user, id]).await
    }

    /// Adds a key to an account.
    ///
    /// # Errors
    /// [`RepoError::KeyUsed`] if a user or a repository holds the key already, [`RepoError::KeyTitleUsed`] if the user has a key of
    /// that title, [`RepoError::UserNotFound`] if the user was deleted meanwhile, or those of the database.
    pub(crate) async fn insert(
        &self,
        tx: &mut Tx,
        user: UserId,
        title: &KeyTitle,
        key: &SshKey,
        now_us: i64,
    ) -> Result<PublicKeyRow, RepoError> {
        claim_key(tx, key.fingerprint(), KeyKind::User).await?;
        let args = args![user, key.fingerprint(), key.as_str(), title.as_str(), title.key(), now_us];
        match tx.optional(INSERT, &args).await {
            Ok(Some(row)) => Ok(row),
            Ok(None) => Err(RepoError::KeyTitleUsed(title.as_str().to_owned())),
            Err(error) if error.is_foreign_key() => Err(RepoError::UserNotFound),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes the user's key with this id and returns it; `None` if there is none.
    pub(crate) async fn delete(
        &self,
        tx: &mut Tx,
        user: UserId,
        id: PublicKeyId,
    ) -> Result<Option<PublicKeyRow>, DbError> {
        let row: Option<PublicKeyRow> = tx.optional(DELETE, &args![user, id]).await?;
        if let Some(row) = &row {
            release_key(tx, &row.fingerprint).await?;
        }
        Ok(row)
    }
}
