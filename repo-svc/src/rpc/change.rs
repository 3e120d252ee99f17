//! The end of every change: its entry in the audit log, its commit together with the response for repetitions of the request, and the
//! tokens that it revoked.

use ferrite_db::Tx;
use ferrite_db::idempotency::IdempotencyKey;
use ferrite_rpc::auth::{TokenCacheWriter, TokenHash};
use prost::Message;

use crate::error::RepoError;
use crate::rpc::authorized::Authorized;
use crate::store::{Action, Entry, Target, append};

/// Appends a change to the audit log, in its transaction.
///
/// # Errors
/// [`AuthError::CredentialsRequired`](ferrite_rpc::auth::AuthError::CredentialsRequired) if no user is authenticated, or those of
/// the database.
pub(super) async fn record(
    tx: &mut Tx,
    authorized: &Authorized,
    action: Action,
    target: Target,
    details: &[(&'static str, String)],
    now_us: i64,
) -> Result<(), RepoError> {
    let entry = Entry { actor: &authorized.actor()?, action, target, details };
    Ok(append(tx, entry, now_us).await?)
}

/// Commits a change. If the request has an idempotency key, the response, which is always a small one, is stored in the same transaction.
///
/// # Errors
/// Those of the database.
pub(super) async fn commit<A: Message>(
    tx: Tx,
    key: Option<&IdempotencyKey>,
    response: A,
    now_us: i64,
) -> Result<A, RepoError> {
    commit_with_subject(tx, key, response, &(), now_us).await
}

/// As [`commit`], for a response that may be too large to be stored: then `subject` is, of which a repeated request gets it anew.
///
/// # Errors
/// Those of the database.
pub(super) async fn commit_with_subject<A: Message, S: Message>(
    mut tx: Tx,
    key: Option<&IdempotencyKey>,
    response: A,
    subject: &S,
    now_us: i64,
) -> Result<A, RepoError> {
    if let Some(key) = key {
        key.store_with_subject(&mut tx, &response, subject, now_us).await?;
    }
    tx.commit().await?;
    Ok(response)
}

/// Removes the cached identities of these tokens in all processes. Called after the change of the tokens is committed, so that the
/// next lookup reads the new rows.
pub(super) async fn revoke_cached(cache: Option<&TokenCacheWriter>, hashes: &[TokenHash]) {
    if let Some(cache) = cache {
        cache.revoke(hashes).await;
    }
}
