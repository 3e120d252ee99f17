use std::time::Duration;

use ferrite_kit::grpc::Channel;
use ferrite_kit::{Clock, Lifecycle};
use ferrite_proto::git::DeleteRepositoryRequest;
use ferrite_proto::git::storage_service_client::StorageServiceClient;

use crate::error::RepoError;
use crate::store::RepositoryStore;

const SWEEP_INTERVAL: Duration = Duration::from_secs(30);
/// Age after which a creation counts as interrupted. The calls of a creation have deadlines far below it.
const UNFINISHED_AGE_US: i64 = 2 * 60 * 1_000_000;

/// Removes repositories whose creation was interrupted by a crash.
#[derive(Clone, Debug)]
pub(crate) struct Sweeper {
    repositories: RepositoryStore,
    storage: Channel,
    clock: Clock,
}

impl Sweeper {
    /// Creates a sweeper of `repositories` that deletes in git-svc, at the other end of `storage`.
    pub(crate) fn new(repositories: RepositoryStore, storage: Channel, clock: Clock) -> Self {
        Self { repositories, storage, clock }
    }

    /// Starts to sweep now and every 30 seconds, until `life` stops.
    pub(crate) fn start(self, life: &Lifecycle) {
        let life2 = life.clone();
        life.spawn("sweeper", async move {
            while !life2.is_stopping() {
                if let Err(error) = self.sweep().await {
                    tracing::warn!(%error, "cannot remove half-made repositories; trying again later");
                }
                tokio::select! {
                    () = life2.stopping() => {}
                    () = tokio::time::sleep(SWEEP_INTERVAL) => {}
                }
            }
        });
    }

    /// Removes the repositories whose creation was interrupted: from git-svc before the database, so that nothing stays on disk
    /// without a row that names it.
    ///
    /// # Errors
    /// [`RepoError::StoreUnavailable`] if git-svc does not delete, or those of the database.
    pub(crate) async fn sweep(&self) -> Result<(), RepoError> {
        let mut storage = StorageServiceClient::new(self.storage.clone());
        for id in self.repositories.unfinished(self.clock.now_us() - UNFINISHED_AGE_US).await? {
            let request = DeleteRepositoryRequest { repository_id: id.0 };
            storage.delete_repository(request).await.map_err(|_| RepoError::StoreUnavailable)?;
            self.repositories.delete_unfinished(id).await?;
            tracing::info!(repo.id = %id, "removed half-made repository {id}");
        }
        Ok(())
    }
}
