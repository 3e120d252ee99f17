//! Start of a service: waiting for its database, opening and watching it.

use std::time::Duration;

use ferrite_core::Lifecycle;
use ferrite_core::startup::{Backoff, ServiceFuture, StartError, error_chain};
use ferrite_core::watch_readiness;
use ferrite_rpc::rate_limit::RateLimiter;
use ferrite_rpc::write_limit::WriteLimit;
use futures_util::future::BoxFuture;

use crate::config::DatabaseArgs;
use crate::error::DbError;
use crate::handle::Db;
use crate::measure::{POSTGRES, SQLITE};
use crate::migrate::Migrations;

/// Time between two looks at the connections of a pool.
const POOL_INTERVAL: Duration = Duration::from_secs(5);

impl From<DbError> for StartError {
    fn from(error: DbError) -> Self {
        Self::Unusable(Box::new(error))
    }
}

/// Sets the readiness of the process by its database, measures the connections to it, and gives free pages of a SQLite file back, until
/// `life` stops.
pub fn watch_database(db: &Db, life: &Lifecycle) {
    report_connections(db, life);
    db.release_free_pages(life);
    let db = db.clone();
    let probe = move || {
        let db = db.clone();
        async move { db.ping().await }
    };
    life.spawn("readiness", watch_readiness(probe, life.clone()));
}

/// Measures the connections of a database until `life` stops.
fn report_connections(db: &Db, life: &Lifecycle) {
    let (db, watched) = (db.clone(), life.clone());
    life.spawn("pool metrics", async move {
        let pool = db.pick(POSTGRES, SQLITE);
        metrics::gauge!("ferrite_db_pool_max_connections", "pool" => pool).set(f64::from(db.max_connections()));
        while !watched.is_stopping() {
            let (open, in_use) = db.connections();
            metrics::gauge!("ferrite_db_pool_connections", "pool" => pool).set(f64::from(open));
            metrics::gauge!("ferrite_db_pool_connections_in_use", "pool" => pool).set(f64::from(in_use));
            watched.pause(POOL_INTERVAL).await;
        }
    });
}

impl DatabaseArgs {
    /// Checks the form of the URL, without connecting.
    ///
    /// # Errors
    /// [`StartError::Unusable`] when it has another scheme or does not parse.
    pub fn check(&self) -> Result<(), StartError> {
        Db::is_server(self.url()).map(drop).map_err(StartError::from)
    }

    /// Opens the database, with the limit on what requests write, which is counted in `limiter`, and runs the migrations; with `no_migrate`
    /// only checks that the schema is up to date. With `allow_newer_schema` it may have migrations that this program does not know.
    ///
    /// # Errors
    /// [`StartError::Unusable`] when the database cannot be opened, a migration fails, or the schema is not up to date and
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

    /// Waits until the database can be used, or `life` stops. Migrates the schema, if the settings do not forbid it, and waits while it is
    /// newer than this program: its predecessor may be on its way back. A file of SQLite is not waited for: it does not come back by itself.
    ///
    /// An attempt that fails is told on the log and by `/readyz`. The process has not bound the addresses of its clients yet, so that they are
    /// refused at once.
    ///
    /// # Errors
    /// When the URL is malformed.
    pub fn wait(&self, migrations: Migrations, life: &Lifecycle) -> ServiceFuture {
        let (args, life) = (self.clone(), life.clone());
        Box::pin(async move {
            if Db::is_server(args.url())? {
                args.wait_for_server(&migrations, &life).await;
            }
            Ok(())
        })
    }

    async fn wait_for_server(&self, migrations: &Migrations, life: &Lifecycle) {
        let mut backoff = Backoff::default();
        let mut has_failed = false;
        loop {
            let outcome = tokio::select! {
                outcome = self.try_once(migrations) => outcome,
                () = life.stopping() => return,
            };
            let Err(error) = outcome else {
                if has_failed {
                    tracing::info!("the database can be used");
                }
                return;
            };
            has_failed = true;
            let reason = format!("the database of FERRITE_DATABASE_URL cannot be used: {}", error_chain(&error));
            backoff.pause(&reason, life).await;
        }
    }

    /// Reaches the database once and brings its schema up to date.
    async fn try_once(&self, migrations: &Migrations) -> Result<(), StartError> {
        Db::reach(self.url()).await?;
        self.open_unlimited(migrations).await?.close().await;
        Ok(())
    }
}
