//! Steps that every process takes at its start: opening the database and the listeners.

use ferrite_proto::grant::BadKey;

use crate::config::{DatabaseArgs, ServeArgs};
use crate::db::{Db, DbError, Migrations};
use crate::net::Listener;
use crate::service_key::ServiceKeyError;

/// Why a process cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The database cannot be opened or brought up to date.
    #[error(transparent)]
    Database(#[from] DbError),
    /// A socket or a file cannot be used.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The shared key cannot be used.
    #[error(transparent)]
    ServiceKey(#[from] ServiceKeyError),
    /// A key of grants cannot be used.
    #[error("grant key file `{file}`: {source}")]
    GrantKey {
        /// The file.
        file: String,
        /// What is wrong with it.
        source: BadKey,
    },
    /// The URL of Redis is malformed.
    #[error("Redis URL is not valid")]
    Redis,
    /// A setting or a part of the service says why.
    #[error("{0}")]
    Other(String),
}

impl DatabaseArgs {
    /// Opens the database and brings its schema up to date, or refuses one that is behind when told not to migrate.
    ///
    /// # Errors
    /// When either fails.
    pub async fn open(&self, migrations: &Migrations) -> Result<Db, StartError> {
        let db = Db::open(&self.database_url, self.database_connections).await?;
        if self.no_migrate {
            migrations.check(&db).await?;
        } else {
            migrations.run(&db).await?;
        }
        Ok(db)
    }
}

impl ServeArgs {
    /// Starts to listen on every address.
    ///
    /// # Errors
    /// When one of them is taken or not ours to use; the message names it.
    pub async fn bind(&self) -> std::io::Result<Vec<Listener>> {
        let mut listeners = Vec::new();
        for address in &self.listen {
            listeners.push(address.bind().await?);
        }
        Ok(listeners)
    }
}
