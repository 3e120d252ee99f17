//! Steps that every process takes at its start: opening the database and the listeners.

use ferrite_proto::grant::BadKey;
use futures_util::future::BoxFuture;

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

/// The life of a service, from start to stop. Boxed: a service's `run` is compiled in its own crate, not again in the program.
pub type ServiceFuture = BoxFuture<'static, Result<(), StartError>>;

impl DatabaseArgs {
    /// Opens the database and brings its schema up to date, or refuses one that is behind when told not to migrate.
    ///
    /// # Errors
    /// When either fails.
    pub fn open<'a>(&'a self, migrations: &'a Migrations) -> BoxFuture<'a, Result<Db, StartError>> {
        Box::pin(async move {
            let db = Db::open(&self.database_url, self.database_connections).await?;
            if self.no_migrate {
                migrations.check(&db).await?;
            } else {
                migrations.run(&db).await?;
            }
            Ok(db)
        })
    }
}

impl ServeArgs {
    /// Starts to listen on every address.
    ///
    /// # Errors
    /// When one of them is taken or not ours to use; the message names it.
    pub fn bind(&self) -> BoxFuture<'_, std::io::Result<Vec<Listener>>> {
        Box::pin(async move {
            let mut listeners = Vec::new();
            for address in &self.listen {
                listeners.push(address.bind().await?);
            }
            Ok(listeners)
        })
    }
}
