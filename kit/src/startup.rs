//! Start of a process: opening its database and its listeners, and the error of a failed start.
//!
//! Not here: keys and authentication, which are in [`crate::credentials`].

use ferrite_proto::grant::BadKey;
use futures_util::future::BoxFuture;

use crate::config::{DatabaseArgs, ServeArgs};
use crate::db::{Db, DbError, Migrations};
use crate::net::Listener;
use crate::service_key::ServiceKeyError;

/// The error of a process that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The database cannot be opened or brought up to date.
    #[error(transparent)]
    Database(#[from] DbError),
    /// A listener or a file cannot be opened.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A key of a role cannot be read, or is not that of this process's role.
    #[error(transparent)]
    ServiceKey(#[from] ServiceKeyError),
    /// The file with a key of grants holds no Ed25519 key.
    #[error("grant key file `{file}`: {source}")]
    GrantKey {
        /// Path of the file.
        file: String,
        /// The error of parsing the key.
        source: BadKey,
    },
    /// The URL of Redis is malformed.
    #[error("Redis URL is not valid")]
    Redis,
    /// Any other failure; the text is the reason.
    #[error("{0}")]
    Other(String),
}

/// The life of a service, from start to stop. Boxed: a service's `run` is compiled in its own crate, not again in the program.
pub type ServiceFuture = BoxFuture<'static, Result<(), StartError>>;

impl DatabaseArgs {
    /// Opens the database and runs the migrations; with `no_migrate` only checks that the schema is up to date.
    ///
    /// # Errors
    /// [`StartError::Database`] when the database cannot be opened, a migration fails, or the schema is not up to date and
    /// `no_migrate` is set.
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
    /// Starts to listen on every address of `listen`.
    ///
    /// # Errors
    /// When an address is in use or the process may not use it; the message names the address.
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
