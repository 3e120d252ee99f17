//! Keeps SQLite's full-text tables in few segments.
//!
//! Every commit adds a segment, and FTS5 merges only once there are four of a size. A large index
//! therefore has about ten, all of which a search reads. With two segments a search takes a third
//! of the time.

use std::time::Duration;

use ferrite_core::Lifecycle;

use super::error::DbError;
use super::handle::Db;

const MERGE_INTERVAL: Duration = Duration::from_secs(5 * 60);
/// Pause between two merges of a round, in which others can write.
const MERGE_PAUSE: Duration = Duration::from_millis(100);
const PAGES_PER_MERGE: u32 = 100;
const CHANGES: &str = "SELECT total_changes()";
/// Rows changed by a merge that had nothing to do: the row of the command itself.
const CHANGES_OF_COMMAND: i64 = 1;

impl Db {
    /// Merges the segments of full-text tables now and every five minutes, until `life` stops. Does
    /// nothing on PostgreSQL.
    pub fn merge_full_text(&self, tables: &'static [&'static str], life: &Lifecycle) {
        if self.pick(true, false) {
            return;
        }
        let (db, life2) = (self.clone(), life.clone());
        life.spawn("full-text merges", async move {
            while !life2.is_stopping() {
                if let Err(error) = db.merge_all(tables, &life2).await {
                    tracing::warn!(%error, "cannot merge the full-text tables; will retry");
                }
                life2.pause(MERGE_INTERVAL).await;
            }
        });
    }

    async fn merge_all(&self, tables: &[&'static str], life: &Lifecycle) -> Result<(), DbError> {
        for table in tables {
            while !life.is_stopping() && self.merge_segments(table).await? {
                life.pause(MERGE_PAUSE).await;
            }
        }
        Ok(())
    }

    /// Merges some pages of one table, which blocks writers. Returns whether there was something to
    /// merge.
    async fn merge_segments(&self, table: &'static str) -> Result<bool, DbError> {
        // FTS5 takes commands as rows. The first one allows a merge of only two segments of a size.
        let set = format!("INSERT INTO {table} ({table}, rank) VALUES ('usermerge', 2)");
        let merge = format!("INSERT INTO {table} ({table}, rank) VALUES ('merge', {PAGES_PER_MERGE})");
        let mut tx = self.begin_relaxed().await?;
        tx.execute(&set, &[]).await?;
        let (before,): (i64,) = tx.one(CHANGES, &[]).await?;
        tx.execute(&merge, &[]).await?;
        let (after,): (i64,) = tx.one(CHANGES, &[]).await?;
        let is_merged = after - before > CHANGES_OF_COMMAND;
        if is_merged {
            tx.commit().await?;
        } else {
            tx.rollback().await?;
        }
        Ok(is_merged)
    }
}

#[cfg(test)]
mod tests {
    use crate::args;
    use crate::testing::{TestDb, on_each};

    const CREATE: &str = "CREATE VIRTUAL TABLE words USING fts5(text)";
    const ADD: &str = "INSERT INTO words (rowid, text) VALUES ($1, 'abc')";
    const FIND: &str = "SELECT COUNT(*) FROM words WHERE words MATCH '\"abc\"'";
    const COUNT_SEGMENTS: &str = "SELECT COUNT(DISTINCT segid) FROM words_idx";

    #[tokio::test]
    async fn merges_leave_one_segment_of_each_size() {
        on_each(|TestDb { db, .. }| async move {
            if db.pick(true, false) {
                return;
            }
            let count = async |sql: &str| db.one::<(i64,)>(sql, &[]).await.unwrap().0;
            db.execute(CREATE, &[]).await.unwrap();
            for id in 1..=3_i64 {
                db.execute(ADD, &args![id]).await.unwrap();
            }
            assert_eq!(count(COUNT_SEGMENTS).await, 3);
            while db.merge_segments("words").await.unwrap() {}
            assert_eq!((count(COUNT_SEGMENTS).await, count(FIND).await), (1, 3));
            assert!(!db.merge_segments("words").await.unwrap());
        })
        .await;
    }
}
