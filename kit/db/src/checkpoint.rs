//! Completes the file of a SQLite database when its process stops.
//!
//! Commits are in the write-ahead log (`-wal`) until a checkpoint. After a clean stop a copy of the
//! file alone has everything.

use ferrite_core::Lifecycle;
use sqlx::{Executor as _, Row as _};

use super::handle::{Db, Pools};
use super::sqlite_connections::SqliteConnections;
use super::statement::sqlite;

/// Sets how long the checkpoint waits for readers, in milliseconds.
const SHORT_WAIT: &str = "PRAGMA busy_timeout = 1000";
/// Moves the log into the file and empties it.
///
/// Source: <https://www.sqlite.org/pragma.html#pragma_wal_checkpoint>.
const EMPTY_LOG: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

impl Db {
    /// Empties the write-ahead log once all tasks of `life` have ended. Does nothing on PostgreSQL.
    pub(crate) fn checkpoint_at_end(&self, life: &Lifecycle) {
        let Pools::Sqlite { write, file, .. } = &self.pools else { return };
        let (write, file) = (write.clone(), file.clone());
        life.at_end(async move {
            let problem = match empty_log(&write).await {
                Ok(true) => return,
                Ok(false) => "another process uses the database".to_owned(),
                Err(error) => error.to_string(),
            };
            tracing::warn!(problem, file = %file.display(), "cannot complete the database file: copy it with its `-wal` file");
        });
    }
}

/// Returns whether the log is empty. It is not if another process reads or writes.
async fn empty_log(write: &SqliteConnections) -> Result<bool, sqlx::Error> {
    let mut lease = write.lease().await?;
    lease.connection().execute(SHORT_WAIT).await?;
    let row = sqlite(EMPTY_LOG, &[]).fetch_one(lease.connection()).await?;
    let is_busy: i64 = row.try_get(0)?;
    lease.put_back();
    Ok(is_busy == 0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ferrite_core::Secret;

    use super::*;
    use crate::{args, watch_database};

    const CREATE: &str = "CREATE TABLE words (word TEXT NOT NULL) STRICT";
    const INSERT: &str = "INSERT INTO words (word) VALUES ($1)";

    async fn open(file: &std::path::Path) -> Db {
        Db::open(&Secret::new(format!("sqlite://{}", file.display())), 1).await.unwrap()
    }

    #[tokio::test]
    async fn a_copy_of_the_file_of_a_stopped_process_has_everything() {
        let folder = tempfile::tempdir().unwrap();
        let [file, copy] = ["own.db", "copy.db"].map(|name| folder.path().join(name));
        let db = open(&file).await;
        let life = Lifecycle::new(Duration::from_secs(20));
        watch_database(&db, &life);
        let (db2, watched) = (db.clone(), life.clone());
        life.spawn("late write", async move {
            db2.execute(CREATE, &[]).await.unwrap();
            watched.stopping().await;
            db2.execute(INSERT, &args!["late"]).await.unwrap();
        });
        life.stop();
        assert!(life.finished().await);
        assert_eq!(folder.path().join("own.db-wal").metadata().unwrap().len(), 0);
        std::fs::copy(&file, &copy).unwrap();
        let (word,): (String,) = open(&copy).await.one("SELECT word FROM words", &[]).await.unwrap();
        assert_eq!(word, "late");
    }

    #[tokio::test]
    async fn a_reader_keeps_the_log_and_does_not_hold_up_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("own.db");
        let db = open(&file).await;
        db.execute(CREATE, &[]).await.unwrap();
        let reader = rusqlite::Connection::open(&file).unwrap();
        reader.execute_batch("BEGIN; SELECT COUNT(*) FROM words").unwrap();
        db.execute(INSERT, &args!["kept"]).await.unwrap();
        let life = Lifecycle::new(Duration::from_secs(20));
        db.checkpoint_at_end(&life);
        life.stop();
        assert!(life.finished().await);
        assert_ne!(folder.path().join("own.db-wal").metadata().unwrap().len(), 0);
    }
}
