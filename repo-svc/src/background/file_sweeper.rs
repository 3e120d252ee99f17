use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ferrite_core::{Clock, Lifecycle};
use ferrite_proto::git::DeleteAssetFilesRequest;
use ferrite_proto::git::release_storage_service_client::ReleaseStorageServiceClient;
use ferrite_proto::id::RepositoryId;
use ferrite_rpc::grpc::{StoreChannel, with_timeout};

use crate::error::RepoError;
use crate::store::{GitStoreTable, ReleaseTable};

const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
/// Deadline of the removal of files of one repository.
const DELETE_TIMEOUT: Duration = Duration::from_secs(10);

/// Removes files from the store that no release has: those of uploads that were not finished within a day, and those of removed
/// releases that were not removed at once.
#[derive(Clone, Debug)]
pub(crate) struct FileSweeper {
    releases: ReleaseTable,
    stores: GitStoreTable,
    storage: StoreChannel,
    clock: Clock,
}

impl FileSweeper {
    /// Creates a sweeper of the files in `releases` that removes them on the git stores of their repositories.
    pub(crate) fn new(releases: ReleaseTable, stores: GitStoreTable, storage: StoreChannel, clock: Clock) -> Self {
        Self { releases, stores, storage, clock }
    }

    /// Starts to sweep every minute until `life` stops.
    pub(crate) fn start(self, life: &Lifecycle) {
        let life2 = life.clone();
        life.spawn("file sweeper", async move {
            while !life2.is_stopping() {
                if let Err(error) = self.sweep().await {
                    tracing::warn!(%error, "cannot remove files that no release has; trying again later");
                }
                life2.pause(SWEEP_INTERVAL).await;
            }
        });
    }

    /// Removes the files that are due: from the store before the database, so that nothing stays on disk without a row that names it.
    ///
    /// # Errors
    /// [`RepoError::StoreUnavailable`] if a store does not remove the files of a repository, or those of the database.
    pub(crate) async fn sweep(&self) -> Result<(), RepoError> {
        let mut by_repository: BTreeMap<RepositoryId, Vec<String>> = BTreeMap::new();
        for file in self.releases.take_due_files(self.clock.now_us()).await? {
            by_repository.entry(RepositoryId(file.repository_id)).or_default().push(file.file_id);
        }
        if by_repository.is_empty() {
            return Ok(());
        }
        let ids: Vec<_> = by_repository.keys().copied().collect();
        let (stores, mut unreachable) = (self.stores.of_repositories(&ids).await?, BTreeSet::new());
        for (id, file_ids) in by_repository {
            // The files of a deleted repository go with its folder.
            if let Some(store) = stores.get(&id) {
                if unreachable.contains(store) {
                    continue;
                }
                let request = DeleteAssetFilesRequest { repository_id: id.0, file_ids: file_ids.clone() };
                let mut storage = ReleaseStorageServiceClient::new(self.storage.with_store(store));
                if storage.delete_asset_files(with_timeout(request, DELETE_TIMEOUT)).await.is_err() {
                    unreachable.insert(store);
                    continue;
                }
            }
            self.releases.forget_files(&file_ids).await?;
        }
        if unreachable.is_empty() { Ok(()) } else { Err(RepoError::StoreUnavailable) }
    }
}
