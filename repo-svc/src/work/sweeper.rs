use std::sync::Arc;
use std::time::Duration;

use ferrite_kit::Lifecycle;
use ferrite_proto::git::DeleteRepositoryRequest;
use ferrite_proto::git::storage_service_client::StorageServiceClient;

use crate::RepoError;
use crate::core::Core;

const EVERY: Duration = Duration::from_secs(30);
/// Longer than a creation can take: its calls have deadlines far below this.
const HALF_MADE_FOR_US: i64 = 2 * 60 * 1_000_000;

/// Starts removing what a crash left half made, now and from time to time, until `life` stops.
pub(crate) fn start_sweeper(core: Arc<Core>, life: &Lifecycle) {
    let life2 = life.clone();
    life.spawn("sweeper", async move {
        while !life2.is_stopping() {
            if let Err(error) = sweep(&core).await {
                tracing::warn!(%error, "cannot remove half-made repositories; trying again later");
            }
            tokio::select! {
                () = life2.stopping() => {}
                () = tokio::time::sleep(EVERY) => {}
            }
        }
    });
}

/// Removes repositories whose creation was cut off: from the store first, so that nothing is left without a row that knows it.
pub(crate) async fn sweep(core: &Core) -> Result<(), RepoError> {
    let mut storage = StorageServiceClient::new(core.storage.clone());
    for id in core.repositories.half_made(core.clock.now_us() - HALF_MADE_FOR_US).await? {
        let request = DeleteRepositoryRequest { repository_id: id.0 };
        storage.delete_repository(request).await.map_err(|_| RepoError::StoreUnavailable)?;
        core.repositories.abandon(id).await?;
        tracing::info!(repo.id = %id, "removed half-made repository {id}");
    }
    Ok(())
}
