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
const DELETE_TIMEOUT: Duration = Duration::from_secs(10);

/// Deletes files that no release uses from the stores: uploads not finished within a day, and files
/// of deleted releases that could not be deleted right away.
#[derive(Clone, Debug)]
pub(crate) struct FileSweeper {
    releases: ReleaseTable,
    stores: GitStoreTable,
    storage: StoreChannel,
    clock: Clock,
}

impl FileSweeper {
    pub(crate) fn new(releases: ReleaseTable, stores: GitStoreTable, storage: StoreChannel, clock: Clock) -> Self {
        Self { releases, stores, storage, clock }
    }

    pub(crate) fn start(self, life: &Lifecycle) {
        let life2 = life.clone();
        life.spawn("file sweeper", async move {
            while !life2.is_stopping() {
                if let Err(error) = self.sweep().await {
                    tracing::warn!(%error, "cannot delete unused release files; will retry");
                }
                life2.pause(SWEEP_INTERVAL).await;
            }
        });
    }

    /// Deletes the files that are due, on the store first and then in the database, so that no file
    /// stays on disk without a row that names it.
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
            // The files of a deleted repository go with its directory.
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
