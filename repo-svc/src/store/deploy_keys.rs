//! Deploy keys. `key_fingerprints` claims their fingerprints, and `key_lookup` finds the holder of
//! a key.

use ferrite_core::page::Page;
use ferrite_db::args;
use ferrite_db::{Db, DbError, Tx};
use ferrite_proto::id::{DeployKeyId, RepositoryId, UserId};

use super::key_fingerprints::{KeyKind, claim_key, release_key};
use super::sql::or_missing;
use crate::error::RepoError;
use crate::model::{SshKey, Title};

const LIST: &str = "SELECT id, content, title, fingerprint, is_read_only, created_us FROM deploy_keys \
     WHERE repository_id = $1 ORDER BY id LIMIT $2 OFFSET $3";
const COUNT: &str = "SELECT COUNT(*) FROM deploy_keys WHERE repository_id = $1";
const FIND: &str = "SELECT id, content, title, fingerprint, is_read_only, created_us FROM deploy_keys \
     WHERE repository_id = $1 AND id = $2";
const INSERT: &str = "INSERT INTO deploy_keys \
     (repository_id, fingerprint, content, title, title_key, is_read_only, created_us, user_id) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING \
     RETURNING id, content, title, fingerprint, is_read_only, created_us";
const HAS_KEY: &str = "SELECT id FROM deploy_keys WHERE repository_id = $1 AND fingerprint = $2";
const DELETE: &str = "DELETE FROM deploy_keys WHERE repository_id = $1 AND id = $2 \
     RETURNING id, content, title, fingerprint, is_read_only, created_us";

#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub(crate) struct DeployKey {
    pub(crate) id: i64,
    pub(crate) content: String,
    pub(crate) title: String,
    pub(crate) fingerprint: String,
    pub(crate) is_read_only: bool,
    pub(crate) created_us: i64,
}

/// Before adding or removing keys, [lock](super::RepositoryTable::lock) the repository in the same
/// transaction, so that no key is added to a repository that is being deleted.
#[derive(Clone, Debug)]
pub(crate) struct DeployKeyTable {
    db: Db,
}

impl DeployKeyTable {
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// Returns a page of keys, ordered by id, and the total.
    pub(crate) async fn list(&self, repository: RepositoryId, page: Page) -> Result<(Vec<DeployKey>, i64), DbError> {
        let (total,): (i64,) = self.db.one(COUNT, &args![repository]).await?;
        Ok((self.db.all(LIST, &args![repository, page.size(), page.offset()]).await?, total))
    }

    /// Does not find keys of other repositories.
    pub(crate) async fn find(&self, repository: RepositoryId, id: DeployKeyId) -> Result<Option<DeployKey>, DbError> {
        self.db.optional(FIND, &args![repository, id]).await
    }

    pub(crate) async fn insert(
        &self,
        tx: &mut Tx,
        repository: RepositoryId,
        user: UserId,
        (title, key): (&Title, &SshKey),
        is_read_only: bool,
        now_us: i64,
    ) -> Result<DeployKey, RepoError> {
        claim_key(tx, key.fingerprint(), KeyKind::Deployment).await?;
        let (fingerprint, content) = (key.fingerprint(), key.as_str());
        let args = args![repository, fingerprint, content, title.as_str(), title.key(), is_read_only, now_us, user];
        let added = tx.optional(INSERT, &args).await;
        if let Some(row) = added.map_err(or_missing(RepoError::UserNotFound))? {
            return Ok(row);
        }
        let same_key: Option<(i64,)> = tx.optional(HAS_KEY, &args![repository, key.fingerprint()]).await?;
        Err(match same_key {
            Some(_) => RepoError::KeyUsed,
            None => RepoError::KeyTitleUsed(title.as_str().to_owned()),
        })
    }

    /// Returns the removed key; `None` if the repository has no such key.
    pub(crate) async fn delete(
        &self,
        tx: &mut Tx,
        repository: RepositoryId,
        id: DeployKeyId,
    ) -> Result<Option<DeployKey>, DbError> {
        let Some(row) = tx.optional::<DeployKey>(DELETE, &args![repository, id]).await? else { return Ok(None) };
        release_key(tx, &row.fingerprint).await?;
        Ok(Some(row))
    }
}

#[cfg(test)]
mod tests;
