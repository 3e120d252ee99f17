//! The end of every change: it is told in the audit log, its answer is kept for repetitions of the request, and all of it happens at
//! once.

use ferrite_kit::db::Tx;
use ferrite_kit::idempotency::IdempotencyKey;
use prost::Message;

use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::store::{Action, Entry, Target, append};

/// Tells of a change, in its transaction.
pub(super) async fn record(
    tx: &mut Tx,
    permit: &Permit,
    action: Action,
    target: Target,
    details: &[(&'static str, String)],
    now_us: i64,
) -> Result<(), RepoError> {
    let entry = Entry { actor: &permit.actor()?, action, target, details };
    Ok(append(tx, entry, now_us).await?)
}

/// Makes a change durable, together with its answer if the request brought a key.
pub(super) async fn commit<A: Message>(
    mut tx: Tx,
    key: Option<&IdempotencyKey>,
    answer: A,
    now_us: i64,
) -> Result<A, RepoError> {
    if let Some(key) = key {
        key.store(&mut tx, &answer, now_us).await?;
    }
    tx.commit().await?;
    Ok(answer)
}
