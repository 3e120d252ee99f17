//! What an account began and what waits since, ended in the transaction in which the account loses the right to it: transfers of
//! repositories that it owns no longer, and imports to owners for whom it may create repositories no longer.
//!
//! Not here: what belongs to a repository whoever made it, such as webhooks, deploy keys and mirrors.

use ferrite_db::Tx;
use ferrite_proto::events::MigrationEnded;
use ferrite_proto::id::{RepositoryId, UserId};

use super::change;
use crate::error::RepoError;
use crate::rpc::authorized::Authorized;
use crate::state::AppState;
use crate::store::{Action, Target};

/// The reason of an import that ended in this way.
pub(super) const RIGHT_LOST: &str =
    "the user who started the import may not create repositories for this owner any more";

/// Ends what waits of a user, as far as the user has lost the right to it in this transaction.
///
/// # Errors
/// Those of the database.
pub(super) async fn end_waiting(
    state: &AppState,
    tx: &mut Tx,
    authorized: &Authorized,
    user: UserId,
    now_us: i64,
) -> Result<(), RepoError> {
    let ended = state.transfers.end_unowned(tx, user).await?;
    record_transfers(state, tx, authorized, ended, now_us).await?;
    for (import, repository) in state.imports.lock_unowned(tx, user).await? {
        let end = MigrationEnded { error: RIGHT_LOST.to_owned(), ..MigrationEnded::default() };
        state.imports.end(tx, import, &end, now_us).await?;
        // The sweeper deletes it on the store, which ends the job there.
        state.repositories.release_name_in(tx, repository).await?;
        tracing::info!(repo.id = %repository, user.id = user.0, "import {import} ended with the right to it");
    }
    Ok(())
}

/// Ends all transfers that a user started who is about to be deleted in this transaction. Its imports go with its row.
///
/// # Errors
/// Those of the database.
pub(super) async fn end_transfers(
    state: &AppState,
    tx: &mut Tx,
    authorized: &Authorized,
    user: UserId,
    now_us: i64,
) -> Result<(), RepoError> {
    let ended = state.transfers.end_of_user(tx, user).await?;
    record_transfers(state, tx, authorized, ended, now_us).await
}

async fn record_transfers(
    state: &AppState,
    tx: &mut Tx,
    authorized: &Authorized,
    repositories: Vec<RepositoryId>,
    now_us: i64,
) -> Result<(), RepoError> {
    for id in repositories {
        let name = state.repositories.full_name(tx, id).await?.unwrap_or_default();
        let (target, details) = (Target::repository_named(id, name), [("reason", "starter lost ownership".to_owned())]);
        change::record(tx, authorized, Action::TransferCancel, target, &details, now_us).await?;
        metrics::counter!("ferrite_owner_transfers_ended_total", "reason" => "starter").increment(1);
    }
    Ok(())
}
