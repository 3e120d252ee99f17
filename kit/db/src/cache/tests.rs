//! Commits of this handle, of another handle, and of another process, on both databases.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use ferrite_core::Secret;
use ferrite_core::testing::setting;
use tokio::task::JoinSet;

use super::*;
use crate::args;
use crate::handle::Pools;
use crate::testing::{migrations, on_each};

const SCHEMA: &str = "CREATE TABLE counters (id BIGINT PRIMARY KEY, count BIGINT NOT NULL);
    INSERT INTO counters (id, count) VALUES (1, 0);";
const STRICT: &str = "CREATE TABLE counters (id INTEGER PRIMARY KEY, count INTEGER NOT NULL) STRICT;
    INSERT INTO counters (id, count) VALUES (1, 0);";
const COUNT: &str = "SELECT count FROM counters WHERE id = $1";
const ADD: &str = "UPDATE counters SET count = count + 1 WHERE id = 1";
const ADD_RETURNING: &str = "UPDATE counters SET count = count + 1 WHERE id = 1 RETURNING count";

async fn count(db: &Db, cache: &QueryCache<i64, i64>) -> i64 {
    let query = async { db.one::<(i64,)>(COUNT, &args![1_i64]).await.map(|(count,)| count) };
    cache.get_or_query(db, 1, query).await.unwrap()
}

#[tokio::test]
async fn a_result_is_valid_until_the_next_commit() {
    on_each(|test| async move {
        migrations(&[SCHEMA], &[STRICT]).await.run(&test.db).await.unwrap();
        let (db, cache) = (test.db.clone(), QueryCache::new("tests", 10));
        let other = Db::open(&test.url, 2).await.unwrap();
        assert_eq!(count(&db, &cache).await, 0);
        let before = db.statements();
        assert_eq!(count(&db, &cache).await, 0);
        assert_eq!(db.statements() - before, db.pick(1, 0));
        for writer in [&db, &other] {
            let was = count(&db, &cache).await;
            let mut tx = writer.begin().await.unwrap();
            tx.execute(ADD, &[]).await.unwrap();
            assert_eq!(count(&db, &cache).await, was);
            tx.rollback().await.unwrap();
            assert_eq!(count(&db, &cache).await, was);
            writer.execute(ADD, &[]).await.unwrap();
            assert_eq!(count(&db, &cache).await, was + 1);
            let mut tx = writer.begin().await.unwrap();
            tx.execute_later(ADD, &[]).await.unwrap();
            tx.commit().await.unwrap();
            assert_eq!(count(&db, &cache).await, was + 2);
            let tx = writer.begin_relaxed().await.unwrap();
            tx.commit_returning::<(i64,)>(ADD_RETURNING, &[]).await.unwrap();
            assert_eq!(count(&db, &cache).await, was + 3);
            writer.all_relaxed::<(i64,)>(&[(ADD, 0), (ADD_RETURNING, 0)], &[]).await.unwrap();
            assert_eq!(count(&db, &cache).await, was + 5);
        }
        other.close().await;
        db.execute(ADD, &[]).await.unwrap();
        assert_eq!(count(&db, &cache).await, 11);
    })
    .await;
}

#[tokio::test]
async fn a_closed_database_has_no_version_and_leaves_no_log() {
    let folder = tempfile::tempdir().unwrap();
    let url = Secret::new(format!("sqlite://{}/a.db", folder.path().display()));
    for _ in 0..2 {
        let db = Db::open(&url, 1).await.unwrap();
        migrations(&[SCHEMA], &[STRICT]).await.run(&db).await.unwrap();
        assert!(db.data_version().is_some());
        db.close().await;
        assert!(db.data_version().is_none());
        for name in ["a.db-wal", "a.db-shm"] {
            assert!(!folder.path().join(name).exists(), "{name}");
        }
    }
}

#[tokio::test]
async fn a_commit_is_detected_after_all_other_connections_were_closed() {
    let folder = tempfile::tempdir().unwrap();
    let url = Secret::new(format!("sqlite://{}/a.db", folder.path().display()));
    let db = Db::open(&url, 1).await.unwrap();
    migrations(&[SCHEMA], &[STRICT]).await.run(&db).await.unwrap();
    let before = db.data_version();
    assert!(before.is_some() && db.data_version() == before);
    let Pools::Sqlite { read, write, .. } = &db.pools else { panic!("this is SQLite") };
    read.close().await;
    write.close().await;
    assert_eq!(db.data_version(), before);
    let other = Db::open(&url, 1).await.unwrap();
    // SQLite may write a setting when a file is opened.
    let before = db.data_version();
    other.execute(ADD, &[]).await.unwrap();
    assert!(db.data_version().is_some_and(|version| Some(version) != before));
    other.close().await;
    db.close().await;
}

#[tokio::test]
async fn a_commit_of_another_process_is_detected() {
    const MARKER: &str = "FERRITE_TEST_QUERY_CACHE_CHILD";
    if let Some(url) = setting(MARKER) {
        let db = Db::open(&Secret::new(url), 1).await.unwrap();
        db.execute(ADD, &[]).await.unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let url = Secret::new(format!("sqlite://{}/shared.db", folder.path().display()));
    let (db, cache) = (Db::open(&url, 1).await.unwrap(), QueryCache::new("tests", 10));
    migrations(&[SCHEMA], &[STRICT]).await.run(&db).await.unwrap();
    for round in 0..3 {
        assert_eq!(count(&db, &cache).await, round);
        let child = tokio::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "cache::tests::a_commit_of_another_process_is_detected", "--nocapture"])
            .env(MARKER, url.expose())
            .stdout(Stdio::null())
            .status();
        assert!(child.await.unwrap().success());
    }
    assert_eq!(count(&db, &cache).await, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_reader_sees_less_than_was_committed() {
    on_each(|test| async move {
        migrations(&[SCHEMA], &[STRICT]).await.run(&test.db).await.unwrap();
        let (db, cache, committed) = (test.db.clone(), QueryCache::new("tests", 10), Arc::new(AtomicI64::new(0)));
        let mut readers = JoinSet::new();
        for _ in 0..4 {
            let (db, cache, committed) = (db.clone(), cache.clone(), Arc::clone(&committed));
            readers.spawn(async move {
                loop {
                    let least = committed.load(Ordering::SeqCst);
                    let seen = count(&db, &cache).await;
                    assert!(seen >= least, "{seen} after {least}");
                    if seen == 200 {
                        return;
                    }
                    tokio::task::yield_now().await;
                }
            });
        }
        for number in 1..=200 {
            db.execute(ADD, &[]).await.unwrap();
            committed.store(number, Ordering::SeqCst);
        }
        while let Some(ended) = readers.join_next().await {
            ended.unwrap();
        }
    })
    .await;
}
