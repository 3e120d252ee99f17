use std::collections::BTreeMap;
use std::time::Duration;

use ferrite_kit::grpc::Channel;
use ferrite_kit::{Clock, Lifecycle};
use ferrite_proto::git::DeleteAssetFilesRequest;
use ferrite_proto::git::release_storage_service_client::ReleaseStorageServiceClient;

use crate::error::RepoError;
use crate::store::ReleaseStore;

const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// Removes files from the store that no release has: those of uploads that were not finished within a day, and those of removed
/// releases that were not removed at once.
#[derive(Clone, Debug)]
pub(crate) struct FileSweeper {
    releases: ReleaseStore,
    storage: Channel,
    clock: Clock,
}

impl FileSweeper {
    /// Creates a sweeper of the files in `releases` that removes them in git-svc, at the other end of `storage`.
    pub(crate) fn new(releases: ReleaseStore, storage: Channel, clock: Clock) -> Self {
        Self { releases, storage, clock }
    }

    /// Starts to sweep every minute until `life` stops.
    pub(crate) fn start(self, life: &Lifecycle) {
        let life2 = life.clone();
        life.spawn("file sweeper", async move {
            while !life2.is_stopping() {
                if let Err(error) = self.sweep().await {
                    tracing::warn!(%error, "cannot remove files that no release has; trying again later");
                }
                tokio::select! {
                    () = life2.stopping() => {}
                    () = tokio::time::sleep(SWEEP_INTERVAL) => {}
                }
            }
        });
    }

    /// Removes the files that are due: from the store before the database, so that nothing stays on disk without a row that names it.
    ///
    /// # Errors
    /// [`RepoError::StoreUnavailable`] if git-svc does not remove the files of a repository, or those of the database.
    pub(crate) async fn sweep(&self) -> Result<(), RepoError> {
        let mut by_repository: BTreeMap<i64, Vec<String>> = BTreeMap::new();
        for file in self.releases.take_due_files(self.clock.now_us()).await? {
            by_repository.entry(file.repository_id).or_default().push(file.file_id);
        }
        let mut storage = ReleaseStorageServiceClient::new(self.storage.clone());
        let mut outcome = Ok(());
        for (repository_id, file_ids) in by_repository {
            let request = DeleteAssetFilesRequest { repository_id, file_ids: file_ids.clone() };
            match storage.delete_asset_files(request).await {
                Ok(_) => self.releases.forget_files(&file_ids).await?,
                Err(_) => outcome = Err(RepoError::StoreUnavailable),
            }
        }
        outcome
    }
}
