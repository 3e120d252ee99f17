//! Whom a key stands for, by its fingerprint: one user, or any number of repositories, never both. Whoever signs in with it over
//! SSH is then known without doubt.
//!
//! Every key of a user or of a repository is claimed here in the transaction that stores it, and released in the one that removes
//! it.

use ferrite_kit::args;
use ferrite_kit::db::{DbError, Tx};
use ferrite_proto::id::{RepositoryId, UserId};

use crate::RepoError;

const CLAIM_FOR_USER: &str =
    "INSERT INTO key_fingerprints (fingerprint, kind, uses) VALUES ($1, 'user', 1) ON CONFLICT DO NOTHING";
const CLAIM_FOR_DEPLOYMENT: &str = "INSERT INTO key_fingerprints (fingerprint, kind, uses) VALUES ($1, 'deploy', 1) \
     ON CONFLICT (fingerprint) DO UPDATE SET uses = key_fingerprints.uses + 1 WHERE key_fingerprints.kind = 'deploy'";
const RELEASE: &str = "UPDATE key_fingerprints SET uses = uses - 1 WHERE fingerprint = $1";
const FORGET: &str = "DELETE FROM key_fingerprints WHERE fingerprint = $1 AND uses <= 0";
const RELEASE_OF_USER: &str = "DELETE FROM key_fingerprints WHERE kind = 'user' \
     AND fingerprint IN (SELECT fingerprint FROM public_keys WHERE user_id = $1)";
/// Rows are locked in one order, so that two repositories with the same keys can be deleted at once. SQLite has one writer.
const LOCK_OF_REPOSITORY: &str = "SELECT fingerprint FROM key_fingerprints WHERE fingerprint IN \
     (SELECT fingerprint FROM deploy_keys WHERE repository_id = $1) ORDER BY fingerprint FOR UPDATE";
const RELEASE_OF_REPOSITORY: &str = "UPDATE key_fingerprints SET uses = uses - 1 WHERE kind = 'deploy' \
     AND fingerprint IN (SELECT fingerprint FROM deploy_keys WHERE repository_id = $1)";
const FORGET_OF_REPOSITORY: &str = "DELETE FROM key_fingerprints WHERE kind = 'deploy' AND uses <= 0 \
     AND fingerprint IN (SELECT fingerprint FROM deploy_keys WHERE repository_id = $1)";

/// What a key is to stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    /// One user.
    User,
    /// One more repository.
    Deployment,
}

/// Claims a fingerprint, until the transaction is undone or the key released.
///
/// # Errors
/// [`RepoError::KeyUsed`] when it stands for a user already, or for repositories and is to stand for a user.
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

/// Takes one claim on a fingerprint back.
pub(crate) async fn release_key(tx: &mut Tx, fingerprint: &str) -> Result<(), DbError> {
    tx.execute(RELEASE, &args![fingerprint]).await?;
    tx.execute(FORGET, &args![fingerprint]).await?;
    Ok(())
}

/// Takes all claims of a user's keys back. Call it before the keys are removed.
pub(crate) async fn release_user_keys(tx: &mut Tx, user: UserId) -> Result<(), DbError> {
    tx.execute(RELEASE_OF_USER, &args![user]).await.map(drop)
}

/// Takes all claims of a repository's deploy keys back. Call it before the keys, or the repository, are removed.
pub(crate) async fn release_repository_keys(tx: &mut Tx, repository: RepositoryId) -> Result<(), DbError> {
    if tx.pick(true, false) {
        let _: Vec<(String,)> = tx.all(LOCK_OF_REPOSITORY, &args![repository]).await?;
    }
    tx.execute(RELEASE_OF_REPOSITORY, &args![repository]).await?;
    tx.execute(FORGET_OF_REPOSITORY, &args![repository]).await?;
    Ok(())
}
