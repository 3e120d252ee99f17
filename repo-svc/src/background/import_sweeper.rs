//! Imports whose end nobody tells: those that the store never got, because this service crashed before, and those of a store that
//! does not respond any more.
//!
//! Not here: the end of an import that the store tells (`rpc`), and the deletion of what the store has of one that was given up, which
//! the sweeper of unfinished repositories does.

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
/// Deadline of a question to a store.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(10);
/// Age below which the store need not know an import yet. The call that starts one has a deadline far below it.
const START_AGE: Duration = Duration::from_secs(30);
/// Time without a response of the store after which an import counts as failed.
const MAX_SILENCE: Duration = Duration::from_secs(24 * 3600);
/// Time for which imports are kept after their end.
const RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);
const INTERRUPTED: &str = "the import was interrupted before it began; start it again";
const SILENT: &str = "the git store did not answer for a day";

/// Asks the store about imports that go on, and gives up those that it does not know.
#[derive(Clone, Debug)]
pub(crate) struct ImportSweeper {
    db: Db,
    repositories: RepositoryTable,
    imports: ImportTable,
    storage: StoreChannel,
    clock: Clock,
}

impl ImportSweeper {
    /// Creates a sweeper of `imports` and their repositories, which asks their git stores.
    pub(crate) fn new(
        db: Db,
        repositories: RepositoryTable,
        imports: ImportTable,
        storage: StoreChannel,
        clock: Clock,
    ) -> Self {
        Self { db, repositories, imports, storage, clock }
    }

    /// Starts to look now and every 10 seconds, until `life` stops.
    pub(crate) fn start(self, life: &Lifecycle) {
        let life2 = life.clone();
        life.spawn("import sweeper", async move {
            while !life2.is_stopping() {
                if let Err(error) = self.sweep().await {
                    tracing::warn!(%error, "cannot look after imports; trying again later");
                }
                life2.pause(LOOK_INTERVAL).await;
            }
        });
    }

    /// Notes how far the imports are that go on, gives up those that nobody will end, and deletes old ones.
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) async fn sweep(&self) -> Result<(), RepoError> {
        let now = self.clock.now_us();
        self.imports.purge(now - micros(RETENTION)).await?;
        let mut silent = BTreeSet::new();
        for import in self.imports.unheard(now - micros(LOOK_INTERVAL)).await? {
            let is_given_up = import.heard_us < now - micros(MAX_SILENCE);
            // The others of a store would wait for the same response.
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
                    tracing::debug!("a store does not answer about imports: {}", status.message());
                    silent.insert(import.store);
                }
            }
        }
        Ok(())
    }

    /// Ends an import as failed and frees the name of its repository, which the other sweeper deletes on the store and here.
    async fn give_up(&self, import: &Import, error: &str) -> Result<(), RepoError> {
        let mut tx = self.db.begin().await?;
        if self.imports.lock(&mut tx, import.repository_id()).await?.is_none() {
            return Ok(());
        }
        let end = MigrationEnded { error: error.to_owned(), ..MigrationEnded::default() };
        self.imports.end(&mut tx, import.id, &end, self.clock.now_us()).await?;
        self.repositories.release_name_in(&mut tx, import.repository_id()).await?;
        tx.commit().await?;
        tracing::info!(repo.id = %import.repository_id(), "import {} was given up: {error}", import.id);
        Ok(())
    }
}
