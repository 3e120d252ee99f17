//! Returns free pages of a SQLite file to the file system.
//!
//! SQLite reuses the pages of deleted rows, so a file never shrinks by itself. With incremental
//! auto-vacuum it can move pages from the end of the file into free ones. New files have it. A file
//! of an older version is converted by one `VACUUM`, which rewrites the whole file, so only up to a
//! size that the settings limit.

use std::time::Duration;

use ferrite_core::Lifecycle;
use futures_util::future::BoxFuture;
use sqlx::Executor;

use super::error::DbError;
use super::handle::{Db, Pools};
use super::lock;

const CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// Pause between two steps, in which others can write.
const STEP_PAUSE: Duration = Duration::from_millis(50);
/// Moves at most 200 pages, so that no writer waits long.
const STEP: &str = "PRAGMA incremental_vacuum(200)";
/// Minimum number of free pages to keep for new rows: 4 MiB.
const MIN_KEPT_PAGES: i64 = 1024;
/// A file keeps one in 20 of its pages free for new rows.
const KEPT_SHARE: i64 = 20;
/// Moves the pages of the write-ahead log into the file, which truncates it. Does not wait for
/// readers.
const CHECKPOINT: &str = "PRAGMA wal_checkpoint(PASSIVE)";
/// `incremental` in `PRAGMA auto_vacuum`.
const INCREMENTAL: i64 = 2;
const CONVERT: &str = "PRAGMA auto_vacuum = INCREMENTAL; VACUUM; PRAGMA wal_checkpoint(TRUNCATE)";
const PAGES: &str = "SELECT a.auto_vacuum AS mode, f.freelist_count AS free, c.page_count AS count, s.page_size AS bytes \
     FROM pragma_auto_vacuum a, pragma_freelist_count f, pragma_page_count c, pragma_page_size s";

#[derive(Clone, Copy, Debug, sqlx_macros::FromRow)]
struct Pages {
    mode: i64,
    free: i64,
    count: i64,
    bytes: i64,
}

impl Pages {
    /// Returns the number of free pages to keep for new rows.
    fn kept(&self) -> i64 {
        MIN_KEPT_PAGES.max(self.count / KEPT_SHARE)
    }

    fn report(&self) {
        metrics::gauge!("ferrite_db_file_bytes").set((self.count * self.bytes) as f64);
        metrics::gauge!("ferrite_db_free_bytes").set((self.free * self.bytes) as f64);
    }
}

impl Db {
    /// Turns on incremental auto-vacuum for a SQLite file of an older version, if the file has at
    /// most `max_bytes`. This rewrites the file, which takes a second or two per 100 MiB and needs
    /// twice the disk space. If it fails, the file stays as it is.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn enable_incremental_vacuum(&self, max_bytes: u64) -> BoxFuture<'_, Result<(), DbError>> {
        Box::pin(async move {
            let Pools::Sqlite { write, file, .. } = &self.pools else { return Ok(()) };
            let _lock = lock::exclusive(file).await?;
            let pages = self.pages().await?;
            if pages.mode == INCREMENTAL {
                return Ok(());
            }
            let bytes = u64::try_from(pages.count * pages.bytes).unwrap_or_default();
            if bytes > max_bytes {
                tracing::info!(bytes, max_bytes, file = %file.display(), "the file will not shrink: it is too large to convert");
                return Ok(());
            }
            let mut lease = write.lease().await?;
            match lease.connection().execute(CONVERT).await {
                Ok(_) => {
                    lease.put_back();
                    tracing::info!(bytes, file = %file.display(), "turned on incremental auto-vacuum");
                }
                Err(error) => {
                    tracing::warn!(%error, file = %file.display(), "the file will not shrink: converting it failed");
                }
            }
            Ok(())
        })
    }

    /// Releases free pages now and every minute, until `life` stops. Does nothing on PostgreSQL.
    pub(crate) fn release_free_pages(&self, life: &Lifecycle) {
        if self.pick(true, false) {
            return;
        }
        let (db, life2) = (self.clone(), life.clone());
        life.spawn("releasing free pages", async move {
            while !life2.is_stopping() {
                if let Err(error) = db.release_round(&life2).await {
                    tracing::warn!(%error, "cannot release free pages; will retry");
                }
                life2.pause(CHECK_INTERVAL).await;
            }
        });
    }

    /// Once the file has twice as many free pages as it keeps, releases the surplus.
    async fn release_round(&self, life: &Lifecycle) -> Result<(), DbError> {
        let before = self.pages().await?;
        before.report();
        if before.mode != INCREMENTAL || before.free <= 2 * before.kept() {
            return Ok(());
        }
        let mut pages = before;
        while pages.free > pages.kept() && !life.is_stopping() {
            let mut tx = self.begin_relaxed().await?;
            tx.execute(STEP, &[]).await?;
            tx.commit().await?;
            life.pause(STEP_PAUSE).await;
            let released = pages.count;
            pages = self.pages().await?;
            metrics::counter!("ferrite_db_released_bytes_total")
                .increment(u64::try_from((released - pages.count) * pages.bytes).unwrap_or_default());
        }
        self.checkpoint().await?;
        pages.report();
        Ok(())
    }

    async fn checkpoint(&self) -> Result<(), DbError> {
        if let Pools::Sqlite { write, .. } = &self.pools {
            let mut lease = write.lease().await?;
            lease.connection().execute(CHECKPOINT).await?;
            lease.put_back();
        }
        Ok(())
    }

    async fn pages(&self) -> Result<Pages, DbError> {
        self.one(PAGES, &[]).await
    }
}

#[cfg(test)]
mod tests;
