use futures_util::future::BoxFuture;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::postgres::PgPoolOptions;

use super::error::DbError;
use super::handle::{Db, Pools};
use super::lock::exclusive;

const APPLIED: &str = "SELECT version FROM _sqlx_migrations WHERE success ORDER BY version";
const HAS_TABLE_POSTGRES: &str = "SELECT to_regclass('_sqlx_migrations') IS NOT NULL";
const HAS_TABLE_SQLITE: &str = "SELECT COUNT(*) > 0 FROM sqlite_master WHERE name = '_sqlx_migrations'";

/// The migrations of one service, the same numbers in both dialects.
#[derive(Debug)]
pub struct Migrations {
    /// For PostgreSQL.
    pub postgres: Migrator,
    /// For SQLite.
    pub sqlite: Migrator,
}

impl Migrations {
    /// Brings the schema up to date, under a lock that keeps other processes out meanwhile.
    ///
    /// # Errors
    /// When a migration fails, or the schema is newer than this program.
    pub fn run<'a>(&'a self, db: &'a Db) -> BoxFuture<'a, Result<(), DbError>> {
        Box::pin(self.migrate(db))
    }

    async fn migrate(&self, db: &Db) -> Result<(), DbError> {
        match &db.pools {
            // The migrator takes an advisory lock there, which belongs to its connection and stays when a migration fails: the
            // connection is one of its own and ends with it.
            Pools::Postgres(pool) => {
                let options = pool.connect_options().as_ref().clone();
                let own = PgPoolOptions::new().max_connections(1).connect_with(options).await?;
                let outcome = self.postgres.run(&own).await;
                own.close().await;
                outcome?;
            }
            Pools::Sqlite { write, file, .. } => {
                let _lock = exclusive(file).await?;
                self.sqlite.run(write).await?;
            }
        }
        Ok(())
    }

    /// Refuses a schema that is behind or ahead of this program, and changes nothing.
    ///
    /// # Errors
    /// When it is, or the database cannot be asked.
    pub fn check<'a>(&'a self, db: &'a Db) -> BoxFuture<'a, Result<(), DbError>> {
        Box::pin(self.compare(db))
    }

    async fn compare(&self, db: &Db) -> Result<(), DbError> {
        let (exists,): (bool,) = db.one(db.pick(HAS_TABLE_POSTGRES, HAS_TABLE_SQLITE), &[]).await?;
        let applied: Vec<(i64,)> = if exists { db.all(APPLIED, &[]).await? } else { Vec::new() };
        let wanted = match db.pools {
            Pools::Postgres(_) => &self.postgres,
            Pools::Sqlite { .. } => &self.sqlite,
        };
        for migration in wanted.iter() {
            if !applied.contains(&(migration.version,)) {
                return Err(MigrateError::VersionNotPresent(migration.version).into());
            }
        }
        match applied.iter().find(|(version,)| !wanted.version_exists(*version)) {
            Some((version,)) => Err(MigrateError::VersionMissing(*version).into()),
            None => Ok(()),
        }
    }
}
