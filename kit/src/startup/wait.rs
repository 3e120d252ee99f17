//! Waiting for the servers that a process needs: its database, with a schema of this program, and Redis.
//!
//! An attempt that fails is told on the log and by `/readyz`, and repeated after 1 s, 2 s, 4 s and so on up to 30 s. The process has not
//! bound the addresses of its clients yet, so that they are refused at once.
//!
//! Not here: settings that are wrong by themselves, which end the process, and files (SQLite), which do not come back by themselves.

use std::time::Duration;

use tokio::time::Instant;

use super::{ServiceFuture, StartError, error_chain};
use crate::config::{CredentialArgs, DatabaseArgs};
use crate::db::{Db, Migrations};
use crate::lifecycle::Lifecycle;
use crate::redis::RedisServer;

/// Delay before the second attempt; doubled for each further one.
const MIN_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_secs(30);
/// Longest time to wait for a Redis that does not answer. A process serves without it then, as it does when Redis stops later.
const REDIS_PATIENCE: Duration = Duration::from_secs(10);

/// Waits until the servers that a process needs can be used, or `life` stops. Migrates the schema of the database, if the settings do not
/// forbid it, and waits while it is newer than this program: its predecessor may be on its way back.
///
/// Redis is waited for for 10 seconds, and without end while it refuses the password.
///
/// # Errors
/// When the URL of the database or of Redis is malformed.
pub fn wait_for_servers(
    database: Option<(&DatabaseArgs, Migrations)>,
    credentials: &CredentialArgs,
    life: &Lifecycle,
) -> ServiceFuture {
    let database = database.map(|(args, migrations)| (args.clone(), migrations));
    let redis = credentials.redis_server();
    let life = life.clone();
    Box::pin(async move {
        if let Some((args, migrations)) = database
            && Db::is_server(args.url())?
        {
            wait_for_database(&args, &migrations, &life).await;
        }
        if let Some(server) = redis? {
            wait_for_redis(&server, &life).await;
        }
        life.set_unready_reason("starting");
        Ok(())
    })
}

/// Delays between attempts.
struct Backoff {
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: MIN_DELAY }
    }
}

impl Backoff {
    fn advance(&mut self) -> Duration {
        let delay = self.next;
        self.next = (delay * 2).min(MAX_DELAY);
        delay
    }
}

async fn wait_for_database(args: &DatabaseArgs, migrations: &Migrations, life: &Lifecycle) {
    let mut backoff = Backoff::default();
    let mut has_failed = false;
    loop {
        let outcome = tokio::select! {
            outcome = try_database(args, migrations) => outcome,
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
        pause(&reason, backoff.advance(), life).await;
    }
}

/// Reaches the database once and brings its schema up to date.
async fn try_database(args: &DatabaseArgs, migrations: &Migrations) -> Result<(), StartError> {
    Db::reach(args.url()).await?;
    args.open_unlimited(migrations).await?.close().await;
    Ok(())
}

async fn wait_for_redis(server: &RedisServer, life: &Lifecycle) {
    let began = Instant::now();
    let mut backoff = Backoff::default();
    while !life.is_stopping() {
        let Err(failure) = server.reach().await else { return };
        let reason = format!("the Redis of FERRITE_REDIS_URL cannot be used: {}", failure.reason);
        if !failure.is_refusal && began.elapsed() >= REDIS_PATIENCE {
            tracing::warn!("{reason}; going on without it");
            return;
        }
        pause(&reason, backoff.advance(), life).await;
    }
}

/// Tells the reason of a failed attempt and waits for the next one.
async fn pause(reason: &str, delay: Duration, life: &Lifecycle) {
    tracing::warn!("{reason}; trying again in {} s", delay.as_secs());
    life.set_unready_reason(reason);
    life.pause(delay).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_half_a_minute() {
        let mut backoff = Backoff::default();
        let delays: Vec<u64> = (0..7).map(|_| backoff.advance().as_secs()).collect();
        assert_eq!(delays, [1, 2, 4, 8, 16, 30, 30]);
    }
}
