//! `DeleteRepository`, and the removal of repositories that were deleted shortly before a crash.

use ferrite_kit::auth::Caller;
use ferrite_proto::{
    events::Event,
    git::{DeleteRepositoryRequest, DeleteRepositoryResponse},
    id::RepositoryId,
};
use tonic::Request;

use super::finish;
use crate::{
    db::{MaintenanceTable, MigrationTable, MirrorTable, ProtectionTable, RepositoryTable},
    state::AppState,
    types::rpc_error::RpcError,
};

/// Deletes a repository: its folder moves to the trash.
pub(super) async fn delete_repository(
    state: &AppState,
    request: Request<DeleteRepositoryRequest>,
) -> Result<DeleteRepositoryResponse, RpcError> {
    Caller::of(&request).require_service()?;
    let id = RepositoryId(request.into_inner().repository_id);
    let remove = async move |state: AppState| {
        // Of a migration that is given up nobody else knows the wiki.
        let wiki = state.migrations.wiki_of(id).await?;
        delete(&state, id, &[]).await?;
        match wiki {
            Some(wiki) => delete(&state, wiki, &[]).await,
            None => Ok(()),
        }
    };
    finish(state, remove).await?;
    Ok(DeleteRepositoryResponse {})
}

/// Marks a repository as deleted, together with the delivered events that ask for it, and moves its folder to the trash.
///
/// The mark is committed first: from then on all requests are refused. A folder that a crash leaves behind is moved at the next
/// start.
pub(super) async fn delete(state: &AppState, id: RepositoryId, events: &[Event]) -> Result<(), RpcError> {
    let guard = state.updater.lock(id).await?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    for event in events {
        ferrite_kit::outbox::first_seen(&mut tx, event, now).await?;
    }
    RepositoryTable::delete(&mut tx, id, state.store.name(), now).await?;
    MaintenanceTable::forget(&mut tx, id).await?;
    ProtectionTable::delete_all(&mut tx, id).await?;
    MigrationTable::forget(&mut tx, id).await?;
    MirrorTable::forget(&mut tx, id).await?;
    tx.commit().await?;
    // Requests that were let in before may still fill caches: their contents go again when the folder has moved.
    state.caches.forget(id);
    state.maintenance.stop(id).await;
    state.migrations.stop(id).await;
    state.pool.run_blocking(move |store| store.delete(id)).await?;
    state.caches.forget(id);
    drop(guard);
    Ok(())
}

/// Moves the folders of repositories to the trash that were marked as deleted shortly before a crash.
///
/// # Errors
/// When the table cannot be read, or a folder cannot be moved.
pub(crate) async fn remove_deleted(state: &AppState) -> Result<(), RpcError> {
    for id in state.repositories.deleted(state.store.name()).await? {
        if state.store.exists(id) {
            state.pool.run_blocking(move |store| store.delete(id)).await?;
        }
    }
    Ok(())
}
