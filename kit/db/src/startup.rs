//! Waits for the database of a service, opens and watches it.

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

const POOL_INTERVAL: Duration = Duration::from_secs(5);

impl From<DbError> for StartError {
    fn from(error: DbError) -> Self {
        Self::Unusable(Box::new(error))
    }
}

/// Until `life` stops: sets the readiness of the process by its database, measures the connections,
/// and releases free pages of a SQLite file. At the end it leaves that file complete.
pub fn watch_database(db: &Db, life: &Lifecycle) {
    report_connections(db, life);
    db.release_free_pages(life);
    db.checkpoint_at_end(life);
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
    /// Checks the URL without connecting.
    ///
    /// # Errors
    /// [`StartError::Unusable`] if it is malformed or has another scheme.
    pub fn check(&self) -> Result<(), StartError> {
        Db::is_server(self.url()).map(drop).map_err(StartError::from)
    }

    /// Opens the database and runs the migrations, or with `no_migrate` only checks that the schema
    /// is up to date. With `allow_newer_schema` the schema may have migrations that this program
    /// does not know. Writes of requests are counted in `limiter`.
    ///
    /// # Errors
    /// [`StartError::Unusable`] if the database cannot be opened, a migration fails, or the schema
    /// is out of date with `no_migrate`.
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

    /// Like [`DatabaseArgs::open`], without the write limit.
    fn open_unlimited<'a>(&'a self, migrations: &'a Migrations) -> BoxFuture<'a, Result<Db, StartError>> {
        Box::pin(async move {
            let db = Db::open(self.url(), self.database_connections).await?;
            let mut outcome = if self.no_migrate { migrations.check(&db).await } else { migrations.run(&db).await };
            if self.allow_newer_schema && outcome.as_ref().is_err_and(DbError::is_newer_schema) {
                // The migrations that this program needs must still be there.
                outcome = migrations.check(&db).await;
            }
            match outcome {
                Err(error) if self.allow_newer_schema && error.is_newer_schema() => {
                    tracing::warn!(%error, "continuing with the schema of a newer version");
                }
                outcome => outcome?,
            }
            db.enable_incremental_vacuum(self.sqlite_vacuum_bytes).await?;
            Ok(db)
        })
    }

    /// Waits until the database is usable or `life` stops. Runs the migrations unless the settings
    /// forbid it. Also waits while the schema is newer than this program, because the newer program
    /// may be on its way back. Does not wait for a SQLite file, which does not become usable by
    /// itself.
    ///
    /// Logs every failed attempt and shows it in `/readyz`. The public listeners are not bound yet,
    /// so clients are refused at once.
    ///
    /// # Errors
    /// If the URL is malformed.
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
            let reason = format!("cannot use the database of FERRITE_DATABASE_URL: {}", error_chain(&error));
            backoff.pause(&reason, life).await;
        }
    }

    /// Connects once and brings the schema up to date.
    async fn try_once(&self, migrations: &Migrations) -> Result<(), StartError> {
        Db::reach(self.url()).await?;
        self.open_unlimited(migrations).await?.close().await;
        Ok(())
    }
}
