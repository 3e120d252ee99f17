//! Gives free pages of a SQLite file back to the file system.
//!
//! SQLite keeps the pages of deleted rows and uses them for new rows, so a file never shrinks by itself. With incremental auto-vacuum it
//! knows which page refers to which, and can move pages from the end of the file into free ones. A new file has it. A file of an older
//! version gets it by one `VACUUM`, which writes the whole file again, so only up to a size that the settings limit.
//!
//! Not here: PostgreSQL, whose autovacuum does this.

use std::time::Duration;

use ferrite_core::Lifecycle;
use futures_util::future::BoxFuture;
use sqlx::Executor;

use super::error::DbError;
use super::handle::{Db, Pools};
use super::lock;

/// Time between two looks at the free pages.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// Time between two steps, in which others write.
const STEP_PAUSE: Duration = Duration::from_millis(50);
/// Moves at most 200 pages, so that no writer waits long for it.
const STEP: &str = "PRAGMA incremental_vacuum(200)";
/// Free pages that a file keeps for new rows at least: 4 MiB.
const MIN_KEPT_PAGES: i64 = 1024;
/// The share of a file's pages that it keeps free for new rows: one of so many.
const KEPT_SHARE: i64 = 20;
/// Moves what steps have written from the write-ahead log into the file, which cuts it. Waits for nobody.
const CHECKPOINT: &str = "PRAGMA wal_checkpoint(PASSIVE)";
/// `incremental` in `PRAGMA auto_vacuum`.
const INCREMENTAL: i64 = 2;
const CONVERT: &str = "PRAGMA auto_vacuum = INCREMENTAL; VACUUM; PRAGMA wal_checkpoint(TRUNCATE)";
const PAGES: &str = "SELECT a.auto_vacuum AS mode, f.freelist_count AS free, c.page_count AS count, s.page_size AS bytes \
     FROM pragma_auto_vacuum a, pragma_freelist_count f, pragma_page_count c, pragma_page_size s";

/// The pages of a SQLite file.
#[derive(Clone, Copy, Debug, sqlx_macros::FromRow)]
struct Pages {
    mode: i64,
    free: i64,
    count: i64,
    /// Of one page.
    bytes: i64,
}

impl Pages {
    /// Returns the number of free pages that stay for new rows.
    fn kept(&self) -> i64 {
        MIN_KEPT_PAGES.max(self.count / KEPT_SHARE)
    }

    fn report(&self) {
        metrics::gauge!("ferrite_db_file_bytes").set((self.count * self.bytes) as f64);
        metrics::gauge!("ferrite_db_free_bytes").set((self.free * self.bytes) as f64);
    }
}

impl Db {
    /// Turns on incremental auto-vacuum for a SQLite file of an older version that has at most `max_bytes`. That writes the file again, so it
    /// takes a second or two for each 100 MiB, and needs twice its size on the disk. If it fails, the file stays as it is.
    ///
    /// # Errors
    /// When the database cannot be read.
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
                tracing::info!(bytes, max_bytes, file = %file.display(), "this file does not shrink: it is too large for a conversion");
                return Ok(());
            }
            let mut lease = write.lease().await?;
            match lease.connection().execute(CONVERT).await {
                Ok(_) => {
                    lease.put_back();
                    tracing::info!(bytes, file = %file.display(), "turned on incremental auto-vacuum");
                }
                Err(error) => {
                    tracing::warn!(%error, file = %file.display(), "this file does not shrink: it cannot be converted");
                }
            }
            Ok(())
        })
    }

    /// Gives free pages back to the file system, now and every minute, until `life` stops; on PostgreSQL never.
    pub(crate) fn release_free_pages(&self, life: &Lifecycle) {
        if self.pick(true, false) {
            return;
        }
        let (db, life2) = (self.clone(), life.clone());
        life.spawn("release of free pages", async move {
            while !life2.is_stopping() {
                if let Err(error) = db.release_round(&life2).await {
                    tracing::warn!(%error, "cannot give free pages back; trying again later");
                }
                life2.pause(CHECK_INTERVAL).await;
            }
        });
    }

    /// Gives free pages back if there are twice as many as the file keeps, until it has those.
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
