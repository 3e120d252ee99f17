use std::collections::BTreeSet;
use std::time::Duration;

use ferrite_core::{Clock, Lifecycle};
use ferrite_proto::git::DeleteRepositoryRequest;
use ferrite_proto::git::storage_service_client::StorageServiceClient;
use ferrite_rpc::grpc::{StoreChannel, with_timeout};

use crate::error::RepoError;
use crate::store::RepositoryTable;

const SWEEP_INTERVAL: Duration = Duration::from_secs(30);
/// Deadline of a deletion on a store.
const DELETE_TIMEOUT: Duration = Duration::from_secs(10);
/// Age after which a creation counts as interrupted. The calls of a creation have deadlines far below it.
const UNFINISHED_AGE_US: i64 = 2 * 60 * 1_000_000;

/// Removes repositories whose creation was interrupted by a crash.
#[derive(Clone, Debug)]
pub(crate) struct Sweeper {
    repositories: RepositoryTable,
    storage: StoreChannel,
    clock: Clock,
}

impl Sweeper {
    /// Creates a sweeper of `repositories` that deletes in git-svc, at the other end of `storage`.
    pub(crate) fn new(repositories: RepositoryTable, storage: StoreChannel, clock: Clock) -> Self {
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
                life2.pause(SWEEP_INTERVAL).await;
            }
        });
    }

    /// Removes the repositories whose creation was interrupted: from their git stores before the database, so that nothing stays on disk
    /// without a row that names it. A store that does not respond holds up its own repositories only.
    ///
    /// # Errors
    /// [`RepoError::StoreUnavailable`] if a store does not delete, or those of the database.
    pub(crate) async fn sweep(&self) -> Result<(), RepoError> {
        let mut unreachable = BTreeSet::new();
        for (id, store) in self.repositories.unfinished(self.clock.now_us() - UNFINISHED_AGE_US).await? {
            if unreachable.contains(&store) {
                continue;
            }
            let request = with_timeout(DeleteRepositoryRequest { repository_id: id.0 }, DELETE_TIMEOUT);
            let mut storage = StorageServiceClient::new(self.storage.with_store(&store));
            if storage.delete_repository(request).await.is_err() {
                unreachable.insert(store);
                continue;
            }
            self.repositories.delete_unfinished(id).await?;
            tracing::info!(repo.id = %id, "removed half-made repository {id}");
        }
        if unreachable.is_empty() { Ok(()) } else { Err(RepoError::StoreUnavailable) }
    }
}
