//! When a user loses a right, ends the pending work that needs it, in the same transaction:
//! transfers of repositories that the user no longer owns, and imports to owners for whom the user
//! may no longer create repositories. Webhooks, deploy keys and mirrors belong to the repository
//! and stay.

use ferrite_db::Tx;
use ferrite_proto::events::MigrationEnded;
use ferrite_proto::id::{RepositoryId, UserId};

use super::change;
use crate::error::RepoError;
use crate::rpc::authorized::Authorized;
use crate::state::AppState;
use crate::store::{Action, Target};

/// Error of an import that ends this way.
pub(super) const RIGHT_LOST: &str = "the user who started the import can no longer create repositories for this owner";

/// Ends the pending work of a user that the user has lost the right to.
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
        // The sweeper deletes it on the store, which also stops the import there.
        state.repositories.release_name_in(tx, repository).await?;
        tracing::info!(repo.id = %repository, user.id = user.0, "cancelled import {import}: its user can no longer create repositories for this owner");
    }
    Ok(())
}

/// Ends all transfers started by a user who is about to be deleted. The user's imports are deleted
/// with the account.
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
