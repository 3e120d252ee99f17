//! Migrations whose end nobody tells: those that the store never got, because this service crashed before, and those of a store that
//! does not respond any more.
//!
//! Not here: the end of a migration that the store tells (`rpc`), and the deletion of what the store has of one that was given up, which
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
use crate::store::{Migration, MigrationTable, Progress, RepositoryTable};

const LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// Deadline of a question to a store.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(10);
/// Age below which the store need not know a migration yet. The call that starts one has a deadline far below it.
const START_AGE: Duration = Duration::from_secs(30);
/// Time without a response of the store after which a migration counts as failed.
const MAX_SILENCE: Duration = Duration::from_secs(24 * 3600);
/// Time for which migrations are kept after their end.
const RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);
const INTERRUPTED: &str = "the migration was interrupted before it began; start it again";
const SILENT: &str = "the git store did not answer for a day";

/// Asks the store about migrations that go on, and gives up those that it does not know.
#[derive(Clone, Debug)]
pub(crate) struct MigrationSweeper {
    db: Db,
    repositories: RepositoryTable,
    migrations: MigrationTable,
    storage: StoreChannel,
    clock: Clock,
}

impl MigrationSweeper {
    /// Creates a sweeper of `migrations` and their repositories, which asks their git stores.
    pub(crate) fn new(
        db: Db,
        repositories: RepositoryTable,
        migrations: MigrationTable,
        storage: StoreChannel,
        clock: Clock,
    ) -> Self {
        Self { db, repositories, migrations, storage, clock }
    }

    /// Starts to look now and every 10 seconds, until `life` stops.
    pub(crate) fn start(self, life: &Lifecycle) {
        let life2 = life.clone();
        life.spawn("migration sweeper", async move {
            while !life2.is_stopping() {
                if let Err(error) = self.sweep().await {
                    tracing::warn!(%error, "cannot look after migrations; trying again later");
                }
                life2.pause(LOOK_INTERVAL).await;
            }
        });
    }

    /// Notes how far the migrations are that go on, gives up those that nobody will end, and deletes old ones.
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) async fn sweep(&self) -> Result<(), RepoError> {
        let now = self.clock.now_us();
        self.migrations.purge(now - micros(RETENTION)).await?;
        let mut silent = BTreeSet::new();
        for migration in self.migrations.unheard(now - micros(LOOK_INTERVAL)).await? {
            let is_given_up = migration.heard_us < now - micros(MAX_SILENCE);
            // The others of a store would wait for the same response.
            if silent.contains(&migration.store) && !is_given_up {
                continue;
            }
            let request = GetMigrationRequest { repository_id: migration.repository_id().0 };
            let mut store = MigrationServiceClient::new(self.storage.with_store(&migration.store));
            match store.get_migration(with_timeout(request, QUESTION_TIMEOUT)).await {
                Ok(response) => self.migrations.update(migration.id, Progress::of(response.get_ref()), now).await?,
                Err(status) if reason(&status).as_deref() == Some("MIGRATION_NOT_FOUND") => {
                    if migration.created_us < now - micros(START_AGE) {
                        self.give_up(&migration, INTERRUPTED).await?;
                    }
                }
                Err(_) if is_given_up => self.give_up(&migration, SILENT).await?,
                Err(status) => {
                    tracing::debug!("a store does not answer about migrations: {}", status.message());
                    silent.insert(migration.store);
                }
            }
        }
        Ok(())
    }

    /// Ends a migration as failed and frees the name of its repository, which the other sweeper deletes on the store and here.
    async fn give_up(&self, migration: &Migration, error: &str) -> Result<(), RepoError> {
        let mut tx = self.db.begin().await?;
        if self.migrations.lock(&mut tx, migration.repository_id()).await?.is_none() {
            return Ok(());
        }
        let end = MigrationEnded { error: error.to_owned(), ..MigrationEnded::default() };
        self.migrations.end(&mut tx, migration.id, &end, self.clock.now_us()).await?;
        self.repositories.release_name_in(&mut tx, migration.repository_id()).await?;
        tx.commit().await?;
        tracing::info!(repo.id = %migration.repository_id(), "migration {} was given up: {error}", migration.id);
        Ok(())
    }
}
