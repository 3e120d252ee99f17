//! The size of SQLite files after rows were deleted.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::watch_database;
use ferrite_core::Secret;
use ferrite_core::testing::eventually;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{ConnectOptions, Connection};
use tempfile::TempDir;

use super::*;
use crate::args;

const MIB: u64 = 1024 * 1024;
const CREATE: &str = "CREATE TABLE texts (id INTEGER PRIMARY KEY, text BLOB NOT NULL) STRICT";
const CREATE_INDEX: &str = "CREATE INDEX texts_by_text ON texts (SUBSTR(text, 1, 8))";
const FILL: &str = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 320) \
     INSERT INTO texts (text) SELECT RANDOMBLOB(100000) FROM n";
/// Deletes the first rows, so that pages at the end of the file must be moved.
const DELETE: &str = "DELETE FROM texts WHERE id <= 300";
const SUM: &str = "SELECT COUNT(*), SUM(LENGTH(text)) FROM texts";

fn size(file: &Path) -> u64 {
    std::fs::metadata(file).unwrap().len()
}

async fn open(file: &Path) -> Db {
    Db::open(&Secret::new(format!("sqlite://{}", file.display())), 1).await.unwrap()
}

/// A file of an older version with 32 MiB, of which 30 MiB are free.
async fn old_file(folder: &TempDir) -> PathBuf {
    let file = folder.path().join("old.db");
    let options = SqliteConnectOptions::new().filename(&file).create_if_missing(true);
    let mut old = options.journal_mode(SqliteJournalMode::Wal).connect().await.unwrap();
    for sql in [CREATE, CREATE_INDEX, FILL, DELETE] {
        old.execute(sql).await.unwrap();
    }
    old.close().await.unwrap();
    file
}

#[tokio::test]
async fn a_file_shrinks_after_rows_were_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("new.db");
    let db = open(&file).await;
    for sql in [CREATE, CREATE_INDEX, FILL, DELETE] {
        db.execute(sql, &[]).await.unwrap();
    }
    let life = Lifecycle::new(Duration::from_secs(5));
    watch_database(&db, &life);
    eventually("the file is shorter", async || size(&file) <= 8 * MIB).await;
    let kept: (i64, i64) = db.one(SUM, &[]).await.unwrap();
    assert_eq!(kept, (20, 2_000_000));
    let (state,): (String,) = db.one("PRAGMA integrity_check", &[]).await.unwrap();
    assert_eq!(state, "ok");
    life.stop();
}

#[tokio::test]
async fn others_write_between_the_steps() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder.path().join("new.db")).await;
    for sql in [CREATE, FILL, DELETE] {
        db.execute(sql, &[]).await.unwrap();
    }
    let life = Lifecycle::new(Duration::from_secs(5));
    let round = db.release_round(&life);
    tokio::pin!(round);
    let mut written = 0_i64;
    let row = args![vec![7_u8]];
    loop {
        tokio::select! {
            result = &mut round => break result.unwrap(),
            result = db.execute("INSERT INTO texts (text) VALUES ($1)", &row) => {
                written += i64::try_from(result.unwrap()).unwrap();
            }
        }
    }
    // 30 MiB are 38 steps.
    assert!(written > 38, "{written}");
    let (count, _): (i64, i64) = db.one(SUM, &[]).await.unwrap();
    assert_eq!(count, 20 + written);
}

#[tokio::test]
async fn a_file_of_an_older_version_is_converted_up_to_a_size() {
    let folder = tempfile::tempdir().unwrap();
    let file = old_file(&folder).await;
    let before = size(&file);
    assert!(before > 30 * MIB, "{before}");
    let db = open(&file).await;
    db.enable_incremental_vacuum(before - 1).await.unwrap();
    assert_eq!((db.pages().await.unwrap().mode, size(&file)), (0, before));
    db.enable_incremental_vacuum(before).await.unwrap();
    let pages = db.pages().await.unwrap();
    assert_eq!((pages.mode, pages.free), (INCREMENTAL, 0));
    assert!(size(&file) < 3 * MIB, "{}", size(&file));
    let kept: (i64, i64) = db.one(SUM, &[]).await.unwrap();
    assert_eq!(kept, (20, 2_000_000));
    // The write-ahead log is gone, and the mode is kept.
    assert_eq!(size(&folder.path().join("old.db-wal")), 0);
    db.close().await;
    assert_eq!(open(&file).await.pages().await.unwrap().mode, INCREMENTAL);
}
