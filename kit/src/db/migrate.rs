use std::fs::File;

use sqlx::migrate::{MigrateError, Migrator};

use super::{Db, DbError, Pools};

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
    pub async fn run(&self, db: &Db) -> Result<(), DbError> {
        match &db.0 {
            // The migrator takes an advisory lock there.
            Pools::Postgres(pool) => self.postgres.run(pool).await?,
            Pools::Sqlite { write, file, .. } => {
                let mut name = file.clone().into_os_string();
                name.push(".migrate");
                let lock = File::create(name)?;
                lock.lock()?;
                self.sqlite.run(write).await?;
                lock.unlock()?;
            }
        }
        Ok(())
    }

    /// Refuses a schema that is behind or ahead of this program, and changes nothing.
    ///
    /// # Errors
    /// When it is, or the database cannot be asked.
    pub async fn check(&self, db: &Db) -> Result<(), DbError> {
        let applied: Vec<(i64,)> =
            db.all("SELECT version FROM _sqlx_migrations WHERE success ORDER BY version", &[]).await.unwrap_or_default();
        let wanted = match db.0 {
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
