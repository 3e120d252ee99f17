use std::collections::BTreeSet;
use std::time::Duration;

use ferrite_core::{Clock, Lifecycle};
use ferrite_db::Db;
use ferrite_proto::error::reason;
use ferrite_proto::events::RefsUpdated;
use ferrite_proto::git::SetDefaultBranchRequest;
use ferrite_proto::git::storage_service_client::StorageServiceClient;
use ferrite_rpc::grpc::{StoreChannel, with_timeout};
use tonic::{Code, Status};

use crate::error::RepoError;
use crate::store::{HeadClaim, HeadOutcome, RepositoryTable, UsageChanges};

const SWEEP_INTERVAL: Duration = Duration::from_secs(10);
const MOVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Points HEAD at the chosen default branch on git stores: during a request, and in the background
/// after a crash or while a store was down.
#[derive(Clone, Debug)]
pub(crate) struct HeadMover {
    db: Db,
    repositories: RepositoryTable,
    storage: StoreChannel,
    clock: Clock,
}

impl HeadMover {
    pub(crate) fn new(db: Db, repositories: RepositoryTable, storage: StoreChannel, clock: Clock) -> Self {
        Self { db, repositories, storage, clock }
    }

    pub(crate) fn start(self, life: &Lifecycle) {
        let life2 = life.clone();
        life.spawn("head mover", async move {
            while !life2.is_stopping() {
                if let Err(error) = self.sweep().await {
                    tracing::warn!(%error, "cannot change default branches on git stores; will retry");
                }
                life2.pause(SWEEP_INTERVAL).await;
            }
        });
    }

    /// Makes the changes that are due. An unreachable store delays only its own repositories.
    pub(crate) async fn sweep(&self) -> Result<(), RepoError> {
        let mut unreachable = BTreeSet::new();
        for due in self.repositories.due_heads(self.clock.now_us()).await? {
            if unreachable.contains(&due.store) {
                continue;
            }
            let Some(claim) = self.repositories.take_over_head(due, self.clock.now_us()).await? else { continue };
            let id = claim.repository();
            let outcome = match self.move_head(&claim).await {
                Ok(outcome) => outcome,
                Err(status) if is_gone(&status) => HeadOutcome::NoBranch,
                Err(status) => {
                    tracing::warn!(repo.id = %id, %status, "cannot change the default branch; will retry");
                    unreachable.insert(claim.store);
                    continue;
                }
            };
            let now = self.clock.now_us();
            let mut tx = self.db.begin().await?;
            let mut usage = UsageChanges::default();
            if let Some(change) = self.repositories.end_head(&mut tx, &claim, &outcome, now).await? {
                usage.add(change.owner, change.bytes);
            }
            usage.write(&mut tx).await?;
            tx.commit().await?;
            tracing::info!(repo.id = %id, "finished an interrupted change of the default branch");
        }
        if unreachable.is_empty() { Ok(()) } else { Err(RepoError::StoreUnavailable) }
    }

    /// Asks the store whether HEAD could point to `branch`, without moving it.
    pub(crate) async fn check(&self, repository_id: i64, store: &str, branch: &str) -> Result<(), Status> {
        let request = SetDefaultBranchRequest { repository_id, default_branch: branch.to_owned(), check_only: true };
        let mut storage = StorageServiceClient::new(self.storage.with_store(store));
        storage.set_default_branch(with_timeout(request, MOVE_TIMEOUT)).await.map(drop)
    }

    /// Points HEAD at the branch of a claim. The caller [ends](RepositoryTable::end_head) the claim
    /// with the outcome. If the store fails, the claim stays and the change is made later.
    pub(crate) async fn move_head(&self, claim: &HeadClaim) -> Result<HeadOutcome, Status> {
        let request = SetDefaultBranchRequest {
            repository_id: claim.repository().0,
            default_branch: claim.branch.clone(),
            check_only: false,
        };
        let mut storage = StorageServiceClient::new(self.storage.with_store(&claim.store));
        let moved = match storage.set_default_branch(with_timeout(request, MOVE_TIMEOUT)).await {
            Ok(response) => response.into_inner(),
            // The branch existed when the change was accepted, so it was deleted since.
            Err(status) if status.code() == Code::InvalidArgument && reason(&status).is_some() => {
                return Ok(HeadOutcome::NoBranch);
            }
            Err(status) => return Err(status),
        };
        if moved.number == 0 {
            return Ok(HeadOutcome::Unchanged);
        }
        Ok(HeadOutcome::Moved(Box::new(RefsUpdated {
            number: moved.number,
            size_bytes: moved.size_bytes,
            is_empty: moved.is_empty,
            default_branch: claim.branch.as_bytes().to_vec(),
            ..RefsUpdated::default()
        })))
    }
}

fn is_gone(status: &Status) -> bool {
    status.code() == Code::NotFound && reason(status).is_some()
}
