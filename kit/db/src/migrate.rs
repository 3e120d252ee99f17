//! Runs and checks migrations.

use futures_util::future::BoxFuture;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::SqlitePoolOptions;

use super::error::DbError;
use super::handle::{Db, Pools};
use super::lock::exclusive;

const APPLIED: &str = "SELECT version, checksum FROM _sqlx_migrations WHERE success ORDER BY version";
const HAS_TABLE_POSTGRES: &str = "SELECT to_regclass('_sqlx_migrations') IS NOT NULL";
const HAS_TABLE_SQLITE: &str = "SELECT COUNT(*) > 0 FROM sqlite_master WHERE name = '_sqlx_migrations'";

/// The migrations of one service. Both dialects have the same version numbers.
#[derive(Debug)]
pub struct Migrations {
    /// Migrations for PostgreSQL.
    pub postgres: Migrator,
    /// Migrations for SQLite.
    pub sqlite: Migrator,
}

impl Migrations {
    /// Applies the missing migrations under a lock that excludes other processes.
    ///
    /// # Errors
    /// If the lock is not free in time, a migration fails, or the schema is newer or belongs to
    /// another program.
    pub fn run<'a>(&'a self, db: &'a Db) -> BoxFuture<'a, Result<(), DbError>> {
        Box::pin(self.migrate(db))
    }

    async fn migrate(&self, db: &Db) -> Result<(), DbError> {
        self.applied(db).await?;
        match &db.pools {
            // The migrator's advisory lock belongs to its connection and is not released when a
            // migration fails. So it gets a connection that is closed afterwards.
            Pools::Postgres(connections) => {
                let options = connections.pool().connect_options().as_ref().clone();
                let own = PgPoolOptions::new().max_connections(1).connect_with(options).await?;
                let outcome = self.postgres.run(&own).await;
                own.close().await;
                outcome?;
            }
            Pools::Sqlite { write, file, .. } => {
                let _lock = exclusive(file).await?;
                let options = write.pool().connect_options().as_ref().clone();
                let own = SqlitePoolOptions::new().max_connections(1).connect_with(options).await?;
                let outcome = self.sqlite.run(&own).await;
                own.close().await;
                outcome?;
            }
        }
        Ok(())
    }

    /// Checks that the schema has exactly the migrations of this program. Changes nothing.
    ///
    /// # Errors
    /// [`DbError::Migrate`] if the schema is older or newer, or belongs to another program.
    pub fn check<'a>(&'a self, db: &'a Db) -> BoxFuture<'a, Result<(), DbError>> {
        Box::pin(self.compare(db))
    }

    async fn compare(&self, db: &Db) -> Result<(), DbError> {
        let (applied, expected) = (self.applied(db).await?, self.of(db));
        for migration in expected.iter() {
            if !applied.contains(&migration.version) {
                return Err(MigrateError::VersionNotPresent(migration.version).into());
            }
        }
        match applied.iter().find(|version| !expected.version_exists(**version)) {
            Some(version) => Err(MigrateError::VersionMissing(*version).into()),
            None => Ok(()),
        }
    }

    /// Returns the versions of the applied migrations. Fails with [`DbError::Migrate`] if one
    /// differs from this program's migration of that version. The migrator checks for a newer
    /// schema first, which may be allowed, so it could take the database of another service for its
    /// own.
    async fn applied(&self, db: &Db) -> Result<Vec<i64>, DbError> {
        let (exists,): (bool,) = db.one(db.pick(HAS_TABLE_POSTGRES, HAS_TABLE_SQLITE), &[]).await?;
        let applied: Vec<(i64, Vec<u8>)> = if exists { db.all(APPLIED, &[]).await? } else { Vec::new() };
        let expected = self.of(db);
        for (version, checksum) in &applied {
            if expected.iter().any(|known| known.version == *version && known.checksum[..] != checksum[..]) {
                return Err(MigrateError::VersionMismatch(*version).into());
            }
        }
        Ok(applied.into_iter().map(|(version, _)| version).collect())
    }

    fn of(&self, db: &Db) -> &Migrator {
        match db.pools {
            Pools::Postgres(_) => &self.postgres,
            Pools::Sqlite { .. } => &self.sqlite,
        }
    }
}
