use std::collections::BTreeSet;
use std::time::Duration;

use ferrite_core::{Clock, Lifecycle};
use ferrite_proto::git::DeleteRepositoryRequest;
use ferrite_proto::git::storage_service_client::StorageServiceClient;
use ferrite_rpc::grpc::{StoreChannel, with_timeout};

use crate::error::RepoError;
use crate::store::RepositoryTable;

const SWEEP_INTERVAL: Duration = Duration::from_secs(30);
const DELETE_TIMEOUT: Duration = Duration::from_secs(10);
/// An older creation was interrupted: the calls of a creation have much shorter deadlines.
const UNFINISHED_AGE_US: i64 = 2 * 60 * 1_000_000;

/// Deletes repositories whose creation was interrupted by a crash.
#[derive(Clone, Debug)]
pub(crate) struct Sweeper {
    repositories: RepositoryTable,
    storage: StoreChannel,
    clock: Clock,
}

impl Sweeper {
    pub(crate) fn new(repositories: RepositoryTable, storage: StoreChannel, clock: Clock) -> Self {
        Self { repositories, storage, clock }
    }

    pub(crate) fn start(self, life: &Lifecycle) {
        let life2 = life.clone();
        life.spawn("sweeper", async move {
            while !life2.is_stopping() {
                if let Err(error) = self.sweep().await {
                    tracing::warn!(%error, "cannot delete unfinished repositories; will retry");
                }
                life2.pause(SWEEP_INTERVAL).await;
            }
        });
    }

    /// Deletes unfinished repositories, on the store first and then in the database, so that
    /// nothing stays on disk without a row that names it. An unreachable store delays only its own
    /// repositories.
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
            tracing::info!(repo.id = %id, "deleted unfinished repository {id}");
        }
        if unreachable.is_empty() { Ok(()) } else { Err(RepoError::StoreUnavailable) }
    }
}
