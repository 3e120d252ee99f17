//! Start of a process: waiting for its database and Redis, opening and watching its database, opening its listeners, and the error of a
//! failed start.
//!
//! Not here: keys and authentication, which are in [`crate::credentials`].

mod wait;

use ferrite_proto::grant::BadKey;
use futures_util::future::BoxFuture;

use crate::config::{DatabaseArgs, ServeArgs};
use crate::db::{Db, DbError, Migrations};
use crate::lifecycle::Lifecycle;
use crate::net::Listener;
use crate::rate_limit::RateLimiter;
use crate::redis::BadRedisServer;
use crate::server::watch_readiness;
use crate::service_key::ServiceKeyError;
use crate::write_limit::WriteLimit;

pub use wait::wait_for_servers;

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
    /// The settings name no Redis that can be used.
    #[error("FERRITE_REDIS_URL or FERRITE_REDIS_CA_FILE is not valid: {0}")]
    Redis(#[from] BadRedisServer),
    /// A setting, or the file that it names, cannot be used.
    #[error("{setting}: {source}")]
    Setting {
        /// The variable of the setting.
        setting: &'static str,
        /// The reason.
        source: Box<StartError>,
    },
    /// Any other failure; the text is the reason.
    #[error("{0}")]
    Other(String),
}

/// The life of a service, from start to stop. Boxed: a service's `run` is compiled in its own crate, not again in the program.
pub type ServiceFuture = BoxFuture<'static, Result<(), StartError>>;

impl StartError {
    /// Names the setting that an error comes from, by its variable.
    #[must_use]
    pub fn of(self, setting: &'static str) -> Self {
        Self::Setting { setting, source: Box::new(self) }
    }
}

/// Returns an error and its causes as one line.
#[must_use]
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        // Some errors repeat their cause in their own text.
        if !line.contains(&text) {
            line = format!("{line}: {text}");
        }
        cause = error.source();
    }
    line.replace('\n', " ")
}

/// Sets the readiness of the process by its database, measures the connections to it, and gives free pages of a SQLite file back, until
/// `life` stops.
pub fn watch_database(db: &Db, life: &Lifecycle) {
    db.report_connections(life);
    db.release_free_pages(life);
    let db = db.clone();
    let probe = move || {
        let db = db.clone();
        async move { db.ping().await }
    };
    life.spawn("readiness", watch_readiness(probe, life.clone()));
}

impl DatabaseArgs {
    /// Checks the form of the URL, without connecting.
    ///
    /// # Errors
    /// [`StartError::Database`] when it has another scheme or does not parse.
    pub fn check(&self) -> Result<(), StartError> {
        Db::is_server(self.url()).map(drop).map_err(StartError::Database)
    }

    /// Opens the database, with the limit on what requests write, which is counted in `limiter`, and runs the migrations; with `no_migrate`
    /// only checks that the schema is up to date. With `allow_newer_schema` it may have migrations that this program does not know.
    ///
    /// # Errors
    /// [`StartError::Database`] when the database cannot be opened, a migration fails, or the schema is not up to date and
    /// `no_migrate` is set.
    pub fn open<'a>(
        &'a self,
        migrations: &'a Migrations,
        limiter: &'a RateLimiter,
    ) -> BoxFuture<'a, Result<Db, StartError>> {
        Box::pin(async move {
            let db = self.open_unlimited(migrations).await?;
            Ok(db.with_write_limit(WriteLimit::new(limiter, &self.write_limit)))
        })
    }

    /// Opens the database as [`DatabaseArgs::open`], for work that is no request.
    fn open_unlimited<'a>(&'a self, migrations: &'a Migrations) -> BoxFuture<'a, Result<Db, StartError>> {
        Box::pin(async move {
            let db = Db::open(self.url(), self.database_connections).await?;
            let mut outcome = if self.no_migrate { migrations.check(&db).await } else { migrations.run(&db).await };
            if self.allow_newer_schema && outcome.as_ref().is_err_and(DbError::is_newer_schema) {
                // What this program needs must be there all the same.
                outcome = migrations.check(&db).await;
            }
            match outcome {
                Err(error) if self.allow_newer_schema && error.is_newer_schema() => {
                    tracing::warn!(%error, "going on with the schema of a newer program");
                }
                outcome => outcome?,
            }
            db.enable_incremental_vacuum(self.sqlite_vacuum_bytes).await?;
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
