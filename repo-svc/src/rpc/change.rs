//! How every change ends: append to the audit log, commit together with the response for repeated
//! requests, and revoke cached tokens.

use ferrite_db::Tx;
use ferrite_db::idempotency::IdempotencyKey;
use ferrite_rpc::auth::{TokenCacheWriter, TokenHash};
use prost::Message;

use crate::error::RepoError;
use crate::rpc::authorized::Authorized;
use crate::store::{Action, Entry, Target, append};

/// Appends to the audit log in the transaction of the change.
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

/// Commits a change. If the request has an idempotency key, stores the response (which must be
/// small) in the same transaction.
pub(super) async fn commit<A: Message>(
    tx: Tx,
    key: Option<&IdempotencyKey>,
    response: A,
    now_us: i64,
) -> Result<A, RepoError> {
    commit_with_subject(tx, key, response, &(), now_us).await
}

/// Like [`commit`], for responses that may be too large to store. Then `subject` is stored, and a
/// repeated request builds the response from it.
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

/// Whether changing this field of a user must revoke the cached identities of the user's tokens.
pub(super) fn affects_identity(field: &str) -> bool {
    matches!(field, "email" | "full_name" | "password" | "is_active" | "is_admin")
}

/// Removes the cached identities of these tokens in all processes. Call it after the commit, so
/// that the next lookup reads the new rows.
pub(super) async fn revoke_cached(cache: Option<&TokenCacheWriter>, hashes: &[TokenHash]) {
    if let Some(cache) = cache {
        cache.revoke(hashes).await;
    }
}
