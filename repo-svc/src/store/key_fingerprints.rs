//! Claims on key fingerprints. A key belongs to one user or to any number of repositories, never
//! both, so that an SSH key identifies its holder.
//!
//! Whoever stores or removes a key claims or releases its fingerprint in the same transaction.

use ferrite_db::args;
use ferrite_db::{DbError, Tx};
use ferrite_proto::id::{RepositoryId, TokenId, UserId};

use crate::error::RepoError;

const CLAIM_FOR_USER: &str =
    "INSERT INTO key_fingerprints (fingerprint, kind, uses) VALUES ($1, 'user', 1) ON CONFLICT DO NOTHING";
const CLAIM_FOR_DEPLOYMENT: &str = "INSERT INTO key_fingerprints (fingerprint, kind, uses) VALUES ($1, 'deploy', 1) \
     ON CONFLICT (fingerprint) DO UPDATE SET uses = key_fingerprints.uses + 1 WHERE key_fingerprints.kind = 'deploy'";
const RELEASE: &str = "UPDATE key_fingerprints SET uses = uses - 1 WHERE fingerprint = $1";
const DELETE_RELEASED: &str = "DELETE FROM key_fingerprints WHERE fingerprint = $1 AND uses <= 0";
const RELEASE_OF_USER: &str = "DELETE FROM key_fingerprints WHERE kind = 'user' \
     AND fingerprint IN (SELECT fingerprint FROM public_keys WHERE user_id = $1)";
const RELEASE_OF_TOKEN: &str = "DELETE FROM key_fingerprints WHERE kind = 'user' \
     AND fingerprint IN (SELECT fingerprint FROM public_keys WHERE token_id = $1)";
/// Locks rows in the order of fingerprints, so that deleting two repositories with the same keys
/// does not deadlock. SQLite has a single writer anyway.
const LOCK_OF_REPOSITORY: &str = "SELECT fingerprint FROM key_fingerprints WHERE fingerprint IN \
     (SELECT fingerprint FROM deploy_keys WHERE repository_id = $1) ORDER BY fingerprint FOR UPDATE";
const RELEASE_OF_REPOSITORY: &str = "UPDATE key_fingerprints SET uses = uses - 1 WHERE kind = 'deploy' \
     AND fingerprint IN (SELECT fingerprint FROM deploy_keys WHERE repository_id = $1)";
const DELETE_RELEASED_OF_REPOSITORY: &str = "DELETE FROM key_fingerprints WHERE kind = 'deploy' AND uses <= 0 \
     AND fingerprint IN (SELECT fingerprint FROM deploy_keys WHERE repository_id = $1)";

/// The kind of key holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    /// Holds the key alone.
    User,
    /// Shares the key with other repositories.
    Deployment,
}

/// Claims a fingerprint. Fails with [`RepoError::KeyUsed`] if a user holds the key, or if a user
/// claims a key that repositories hold.
pub(crate) async fn claim_key(tx: &mut Tx, fingerprint: &str, kind: KeyKind) -> Result<(), RepoError> {
    let sql = match kind {
        KeyKind::User => CLAIM_FOR_USER,
        KeyKind::Deployment => CLAIM_FOR_DEPLOYMENT,
    };
    match tx.execute(sql, &args![fingerprint]).await? {
        0 => Err(RepoError::KeyUsed),
        _ => Ok(()),
    }
}

pub(crate) async fn release_key(tx: &mut Tx, fingerprint: &str) -> Result<(), DbError> {
    tx.execute(RELEASE, &args![fingerprint]).await?;
    tx.execute(DELETE_RELEASED, &args![fingerprint]).await?;
    Ok(())
}

/// Releases all keys of a user. Call it before deleting the keys.
pub(crate) async fn release_user_keys(tx: &mut Tx, user: UserId) -> Result<(), DbError> {
    tx.execute(RELEASE_OF_USER, &args![user]).await.map(drop)
}

/// Releases all keys bound to a token, and returns their number. Call it before deleting the token,
/// which deletes the keys.
pub(crate) async fn release_token_keys(tx: &mut Tx, token: TokenId) -> Result<u64, DbError> {
    tx.execute(RELEASE_OF_TOKEN, &args![token]).await
}

/// Releases all deploy keys of a repository. Call it before deleting the keys or the repository.
pub(crate) async fn release_repository_keys(tx: &mut Tx, repository: RepositoryId) -> Result<(), DbError> {
    if tx.pick(true, false) {
        let _: Vec<(String,)> = tx.all(LOCK_OF_REPOSITORY, &args![repository]).await?;
    }
    tx.execute(RELEASE_OF_REPOSITORY, &args![repository]).await?;
    tx.execute(DELETE_RELEASED_OF_REPOSITORY, &args![repository]).await?;
    Ok(())
}
