//! Ends imports that no store will report: this service crashed before the store got the request,
//! or the store no longer responds. The sweeper of unfinished repositories deletes what a failed
//! import left on its store.

use std::collections::BTreeSet;
use std::time::Duration;

use ferrite_core::{Clock, Lifecycle, micros};
use ferrite_db::Db;
use ferrite_proto::error::reason;
use ferrite_proto::events::MigrationEnded;
use ferrite_proto::git::GetMigrationRequest;
use ferrite_proto::git::migration_service_client::MigrationServiceClient;
use ferrite_rpc::grpc::{StoreChannel, with_timeout};

use crate::error::RepoError;
use crate::store::{Import, ImportTable, Progress, RepositoryTable};

const LOOK_INTERVAL: Duration = Duration::from_secs(10);
const QUESTION_TIMEOUT: Duration = Duration::from_secs(10);
/// The store may not know a younger import yet. The call that starts one has a much shorter
/// deadline.
const START_AGE: Duration = Duration::from_secs(30);
/// An import fails after this time without a response from its store.
const MAX_SILENCE: Duration = Duration::from_secs(24 * 3600);
/// How long finished imports are kept.
const RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);
const INTERRUPTED: &str = "the import was interrupted before it started; start it again";
const SILENT: &str = "the git store did not respond for a day";

/// Asks stores about running imports and fails those that their store does not know.
#[derive(Clone, Debug)]
pub(crate) struct ImportSweeper {
    db: Db,
    repositories: RepositoryTable,
    imports: ImportTable,
    storage: StoreChannel,
    clock: Clock,
}

impl ImportSweeper {
    pub(crate) fn new(
        db: Db,
        repositories: RepositoryTable,
        imports: ImportTable,
        storage: StoreChannel,
        clock: Clock,
    ) -> Self {
        Self { db, repositories, imports, storage, clock }
    }

    pub(crate) fn start(self, life: &Lifecycle) {
        let life2 = life.clone();
        life.spawn("import sweeper", async move {
            while !life2.is_stopping() {
                if let Err(error) = self.sweep().await {
                    tracing::warn!(%error, "cannot check running imports; will retry");
                }
                life2.pause(LOOK_INTERVAL).await;
            }
        });
    }

    /// Updates the progress of running imports, fails lost ones, and deletes old ones.
    pub(crate) async fn sweep(&self) -> Result<(), RepoError> {
        let now = self.clock.now_us();
        self.imports.purge(now - micros(RETENTION)).await?;
        let mut silent = BTreeSet::new();
        for import in self.imports.unheard(now - micros(LOOK_INTERVAL)).await? {
            let is_given_up = import.heard_us < now - micros(MAX_SILENCE);
            // This store has just timed out, so do not wait for it again.
            if silent.contains(&import.store) && !is_given_up {
                continue;
            }
            let request = GetMigrationRequest { repository_id: import.repository_id().0 };
            let mut store = MigrationServiceClient::new(self.storage.with_store(&import.store));
            match store.get_migration(with_timeout(request, QUESTION_TIMEOUT)).await {
                Ok(response) => self.imports.update(import.id, Progress::of(response.get_ref()), now).await?,
                Err(status) if reason(&status).as_deref() == Some("MIGRATION_NOT_FOUND") => {
                    if import.created_us < now - micros(START_AGE) {
                        self.give_up(&import, INTERRUPTED).await?;
                    }
                }
                Err(_) if is_given_up => self.give_up(&import, SILENT).await?,
                Err(status) => {
                    tracing::debug!("cannot get the status of an import from its git store: {}", status.message());
                    silent.insert(import.store);
                }
            }
        }
        Ok(())
    }

    /// Fails an import and frees the name of its repository. The other sweeper deletes the
    /// repository, on the store and here.
    async fn give_up(&self, import: &Import, error: &str) -> Result<(), RepoError> {
        let mut tx = self.db.begin().await?;
        if self.imports.lock(&mut tx, import.repository_id()).await?.is_none() {
            return Ok(());
        }
        let end = MigrationEnded { error: error.to_owned(), ..MigrationEnded::default() };
        self.imports.end(&mut tx, import.id, &end, self.clock.now_us()).await?;
        self.repositories.release_name_in(&mut tx, import.repository_id()).await?;
        tx.commit().await?;
        tracing::info!(repo.id = %import.repository_id(), "import {} failed: {error}", import.id);
        Ok(())
    }
}
