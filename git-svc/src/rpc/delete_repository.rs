use ferrite_kit::auth::Caller;
use ferrite_proto::{
    events::Event,
    git::{DeleteRepositoryRequest, DeleteRepositoryResponse},
    id::RepositoryId,
};
use tonic::Request;

use super::finish;
use crate::{
    db::{MaintenanceTable, ProtectionTable, RepositoryTable},
    state::AppState,
    types::rpc_error::RpcError,
};

/// Moves a repository out of every reader's sight.
pub(super) async fn delete_repository(
    app: &AppState,
    request: Request<DeleteRepositoryRequest>,
) -> Result<DeleteRepositoryResponse, RpcError> {
    Caller::of(&request).require_service()?;
    let id = RepositoryId(request.into_inner().repository_id);
    let own = app.clone();
    finish(app, async move { delete(&own, id, &[]).await }).await?;
    Ok(DeleteRepositoryResponse {})
}

/// Records that a repository is gone, together with the events that say so, and moves its folder away.
///
/// The record comes first: from then on nobody is let in. A folder that a crash leaves behind is moved at the next start.
pub(super) async fn delete(app: &AppState, id: RepositoryId, events: &[Event]) -> Result<(), RpcError> {
    let guard = app.updater.lock(id).await?;
    let now = app.clock.now_us();
    let mut tx = app.db.begin().await?;
    for event in events {
        ferrite_kit::outbox::first_seen(&mut tx, event, now).await?;
    }
    RepositoryTable::delete(&mut tx, id, app.store.name(), now).await?;
    MaintenanceTable::forget(&mut tx, id).await?;
    ProtectionTable::delete_all(&mut tx, id).await?;
    tx.commit().await?;
    app.epochs.forget(id);
    app.running.stop(id).await;
    app.pool.run_blocking(move |store| store.delete(id)).await?;
    app.pool.forget(id);
    app.packs.forget(id);
    app.refs.forget(id);
    drop(guard);
    Ok(())
}

/// Moves away the folders of repositories that were deleted shortly before a crash.
///
/// # Errors
/// When the table cannot be read, or a folder cannot be moved.
pub(crate) async fn remove_deleted(app: &AppState) -> Result<(), RpcError> {
    for id in app.repositories.deleted(app.store.name()).await? {
        if app.store.exists(id) {
            app.pool.run_blocking(move |store| store.delete(id)).await?;
        }
    }
    Ok(())
}
