mod migrate;
mod precondition;
mod write_limit;

use std::process::Stdio;
use std::time::Duration;

use ferrite_core::Secret;
use ferrite_core::testing::setting;
use tokio::task::JoinSet;

use super::*;
use crate::args;
use crate::testing::{TestDb, migrations, on_each};

const SCHEMA_POSTGRES: &str = "
CREATE TABLE counters (id BIGINT PRIMARY KEY, count BIGINT NOT NULL CHECK (count >= 0));
CREATE TABLE parents (id BIGINT PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE children (id BIGINT PRIMARY KEY, parent_id BIGINT NOT NULL REFERENCES parents (id));
CREATE TABLE samples (id BIGINT PRIMARY KEY, number BIGINT, words TEXT, flag BOOLEAN, raw BYTEA);";
const SCHEMA_SQLITE: &str = "
CREATE TABLE counters (id INTEGER PRIMARY KEY, count INTEGER NOT NULL CHECK (count >= 0)) STRICT;
CREATE TABLE parents (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE children (id INTEGER PRIMARY KEY, parent_id INTEGER NOT NULL REFERENCES parents (id)) STRICT;
CREATE TABLE samples (id INTEGER PRIMARY KEY, number INTEGER, words TEXT, flag INTEGER, raw BLOB) STRICT;";

const ADD_SAMPLE: &str = "INSERT INTO samples (id, number, words, flag, raw) VALUES ($1, $2, $3, $4, $5)";
const SAMPLE: &str = "SELECT number, words, flag, raw FROM samples WHERE id = $1";
const ADD_COUNTER: &str = "INSERT INTO counters (id, count) VALUES ($1, $2)";
const COUNT: &str = "SELECT count FROM counters WHERE id = 1";
const COUNT_LOCKED: &str = "SELECT count FROM counters WHERE id = 1 FOR UPDATE";
const SET_COUNT: &str = "UPDATE counters SET count = $1 WHERE id = 1";
const SET_COUNT_OF_ALL: &str = "UPDATE counters SET count = $3";
const ADD_PARENT: &str = "INSERT INTO parents (id, name) VALUES ($1, $2)";
const ADD_CHILD: &str = "INSERT INTO children (id, parent_id) VALUES ($1, $2)";

#[derive(Debug, PartialEq, sqlx_macros::FromRow)]
struct Sample {
    number: Option<i64>,
    words: Option<String>,
    flag: Option<bool>,
    raw: Option<Vec<u8>>,
}

async fn schema(test: &TestDb) -> Db {
    migrations(&[SCHEMA_POSTGRES], &[SCHEMA_SQLITE]).await.run(&test.db).await.unwrap();
    test.db.clone()
}

/// Reads the counter and writes the next number. Loses updates unless the transaction excludes
/// other writers.
async fn increment(db: &Db) -> Result<(), DbError> {
    let mut tx = db.begin().await?;
    let (count,): (i64,) = tx.one(db.pick(COUNT_LOCKED, COUNT), &[]).await?;
    tokio::task::yield_now().await;
    tx.execute(SET_COUNT, &args![count + 1]).await?;
    tx.commit().await
}

#[tokio::test]
async fn every_value_is_read_as_it_was_written() {
    on_each(|test| async move {
        let db = schema(&test).await;
        let full = |number, words: &str, flag, raw: &[u8]| Sample {
            number: Some(number),
            words: Some(words.into()),
            flag: Some(flag),
            raw: Some(raw.into()),
        };
        let samples = [
            full(i64::MIN, "", false, &[]),
            full(i64::MAX, "ünï — '; DROP TABLE samples; --", true, &[0, 255, 10, 0]),
            full(-1, "\u{1f980}", true, &[0; 70_000]),
            Sample { number: None, words: None, flag: None, raw: None },
        ];
        for (id, sample) in (1_i64..).zip(samples) {
            let values = args![id, sample.number, sample.words.clone(), sample.flag, sample.raw.clone()];
            assert_eq!(db.execute(ADD_SAMPLE, &values).await.unwrap(), 1);
            assert_eq!(db.one::<Sample>(SAMPLE, &args![id]).await.unwrap(), sample);
        }
    })
    .await;
}

#[tokio::test]
async fn booleans_filter_on_both_databases() {
    on_each(|test| async move {
        let db = schema(&test).await;
        for (id, flag) in [(1_i64, Some(true)), (2, Some(false)), (3, None)] {
            let none: (Option<i64>, Option<String>, Option<Vec<u8>>) = (None, None, None);
            db.execute(ADD_SAMPLE, &args![id, none.0, none.1, flag, none.2]).await.unwrap();
        }
        let rows: Vec<(i64,)> = db.all("SELECT id FROM samples WHERE flag = $1", &args![true]).await.unwrap();
        assert_eq!(rows, [(1,)]);
    })
    .await;
}

#[tokio::test]
async fn a_duplicate_is_not_a_missing_parent() {
    on_each(|test| async move {
        let db = schema(&test).await;
        db.execute(ADD_PARENT, &args![1_i64, "ada"]).await.unwrap();
        let duplicate = db.execute(ADD_PARENT, &args![2_i64, "ada"]).await.unwrap_err();
        assert!(duplicate.is_unique() && !duplicate.is_foreign_key(), "{duplicate:?}");
        let same_key = db.execute(ADD_PARENT, &args![1_i64, "eve"]).await.unwrap_err();
        assert!(same_key.is_unique(), "{same_key:?}");
        let orphan = db.execute(ADD_CHILD, &args![1_i64, 404_i64]).await.unwrap_err();
        assert!(orphan.is_foreign_key() && !orphan.is_unique(), "{orphan:?}");
        db.execute(ADD_CHILD, &args![1_i64, 1_i64]).await.unwrap();
        let referred = db.execute("DELETE FROM parents WHERE id = $1", &args![1_i64]).await.unwrap_err();
        assert!(referred.is_foreign_key(), "{referred:?}");
        let negative = db.execute(ADD_COUNTER, &args![1_i64, -1_i64]).await.unwrap_err();
        assert!(matches!(negative, DbError::Violation(Violation::Check, _)), "{negative:?}");
        let null = db.execute(ADD_COUNTER, &args![1_i64, None::<i64>]).await.unwrap_err();
        assert!(matches!(null, DbError::Violation(Violation::Check, _)), "{null:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn eight_writers_lose_no_update() {
    on_each(|test| async move {
        let db = schema(&test).await;
        db.execute(ADD_COUNTER, &args![1_i64, 0_i64]).await.unwrap();
        let mut writers = JoinSet::new();
        for _ in 0..8 {
            let db = db.clone();
            writers.spawn(async move {
                for _ in 0..15 {
                    increment(&db).await.unwrap();
                }
            });
        }
        while let Some(ended) = writers.join_next().await {
            ended.unwrap();
        }
        assert_eq!(db.one::<(i64,)>(COUNT, &[]).await.unwrap(), (120,));
    })
    .await;
}

#[tokio::test]
async fn two_processes_write_one_sqlite_file() {
    const MARKER: &str = "FERRITE_TEST_SQLITE_CHILD";
    if let Some(url) = setting(MARKER) {
        let db = Db::open(&Secret::new(url), 1).await.unwrap();
        for _ in 0..100 {
            increment(&db).await.unwrap();
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let url = Secret::new(format!("sqlite://{}/shared.db", folder.path().display()));
    let db = Db::open(&url, 1).await.unwrap();
    schema(&TestDb { db: db.clone(), url: url.clone() }).await;
    db.execute(ADD_COUNTER, &args![1_i64, 0_i64]).await.unwrap();
    let children: Vec<_> = (0..2)
        .map(|_| {
            tokio::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "tests::two_processes_write_one_sqlite_file", "--nocapture"])
                .env(MARKER, url.expose())
                .stdout(Stdio::null())
                .kill_on_drop(true)
                .spawn()
                .unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().await.unwrap().success());
    }
    assert_eq!(db.one::<(i64,)>(COUNT, &[]).await.unwrap(), (200,));
}

#[tokio::test]
async fn a_dropped_transaction_wrote_nothing() {
    on_each(|test| async move {
        let db = schema(&test).await;
        for ending in ["drop", "rollback"] {
            let mut tx = db.begin().await.unwrap();
            tx.execute(ADD_COUNTER, &args![1_i64, 5_i64]).await.unwrap();
            assert_eq!(tx.one::<(i64,)>(COUNT, &[]).await.unwrap(), (5,), "a transaction sees its own writes");
            assert_eq!(db.optional::<(i64,)>(COUNT, &[]).await.unwrap(), None, "others do not");
            match ending {
                "drop" => drop(tx),
                _ => tx.rollback().await.unwrap(),
            }
            assert_eq!(db.optional::<(i64,)>(COUNT, &[]).await.unwrap(), None, "{ending}");
        }
        db.execute(ADD_COUNTER, &args![1_i64, 6_i64]).await.unwrap();
        assert_eq!(db.one::<(i64,)>(COUNT, &[]).await.unwrap(), (6,));
    })
    .await;
}

#[tokio::test]
async fn a_cancelled_writer_leaves_the_database_usable() {
    on_each(|test| async move {
        let db = schema(&test).await;
        db.execute(ADD_COUNTER, &args![1_i64, 0_i64]).await.unwrap();
        // A second handle has its own writer connection, like another process.
        let other = Db::open(&test.url, 4).await.unwrap();
        let mut tx = db.begin().await.unwrap();
        tx.execute(SET_COUNT, &args![1_i64]).await.unwrap();
        for _ in 0..3 {
            assert!(tokio::time::timeout(Duration::from_millis(50), increment(&other)).await.is_err());
            assert!(tokio::time::timeout(Duration::from_millis(50), increment(&db)).await.is_err());
        }
        tx.commit().await.unwrap();
        increment(&other).await.unwrap();
        increment(&db).await.unwrap();
        assert_eq!(db.one::<(i64,)>(COUNT, &[]).await.unwrap(), (3,));
        other.close().await;
    })
    .await;
}

#[tokio::test]
async fn readers_do_not_wait_for_a_writer() {
    on_each(|test| async move {
        let db = schema(&test).await;
        db.execute(ADD_COUNTER, &args![1_i64, 0_i64]).await.unwrap();
        let mut tx = db.begin().await.unwrap();
        tx.execute(SET_COUNT, &args![1_i64]).await.unwrap();
        let read = tokio::time::timeout(Duration::from_secs(10), db.one::<(i64,)>(COUNT, &[])).await;
        assert_eq!(read.expect("readers do not wait").unwrap(), (0,));
        tx.commit().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn readers_of_sqlite_cannot_write() {
    let folder = tempfile::tempdir().unwrap();
    let url = Secret::new(format!("sqlite://{}/test.db", folder.path().display()));
    let db = Db::open(&url, 1).await.unwrap();
    schema(&TestDb { db: db.clone(), url }).await;
    let sql = "INSERT INTO counters (id, count) VALUES (1, 1) RETURNING id";
    assert!(db.one::<(i64,)>(sql, &[]).await.is_err());
}

#[tokio::test]
async fn one_attempt_to_reach_a_server_tells_its_reason() {
    on_each(|test| async move {
        Db::reach(&test.url).await.unwrap();
        assert_eq!(Db::is_server(&test.url).unwrap(), test.url.expose().starts_with("postgres"));
    })
    .await;
    // Nothing listens on port 1. A free port could be taken by another test.
    let error = Db::reach(&Secret::new("postgres://u:hunter2@127.0.0.1:1/d")).await.unwrap_err();
    let reason = ferrite_core::startup::error_chain(&error);
    assert!(reason.contains("refused") && !reason.contains("hunter2") && !reason.contains('\n'), "{reason}");
    for malformed in ["", "mysql://x", "postgres://h:port/d", "sqlite:x"] {
        assert!(matches!(Db::is_server(&Secret::new(malformed)), Err(DbError::Url)), "{malformed}");
    }
}

#[tokio::test]
async fn a_query_is_built_of_constant_parts_and_values() {
    on_each(|test| async move {
        let db = schema(&test).await;
        for (id, count) in [(1_i64, 10_i64), (2, 20), (3, 30)] {
            db.execute(ADD_COUNTER, &args![id, count]).await.unwrap();
        }
        let ids = |list: Vec<i64>| {
            let db = db.clone();
            async move {
                let mut query = Query::new("SELECT id FROM counters WHERE count >= ");
                query.bind(10_i64).push(" AND id IN ").bind_list(list).push(" ORDER BY id");
                let rows: Vec<(i64,)> = db.all(query.sql(), query.args()).await.unwrap();
                rows.into_iter().map(|(id,)| id).collect::<Vec<_>>()
            }
        };
        assert_eq!(ids(vec![]).await, [0_i64; 0]);
        assert_eq!(ids(vec![2]).await, [2]);
        assert_eq!(ids(vec![3, 1, 404]).await, [1, 3]);
    })
    .await;
}

#[test]
fn the_text_of_a_query_never_contains_a_value() {
    let mut query = Query::new("SELECT id FROM parents WHERE name = ");
    query.bind("x'; DROP TABLE parents; --").push(" OR name IN ").bind_list(["a", "b"]);
    assert_eq!(query.sql(), "SELECT id FROM parents WHERE name = $1 OR name IN ($2, $3)");
    assert_eq!(query.args().len(), 3);
}

#[test]
fn lists_of_many_lengths_have_few_texts() {
    let text = |count: i64| {
        let mut query = Query::new("SELECT id FROM parents WHERE id IN ");
        query.bind_list(1..=count);
        let last = query.args().last().cloned();
        assert!(last == (count > 0).then(|| Value::from(count)), "{last:?}");
        query.sql().to_owned()
    };
    let texts: std::collections::BTreeSet<_> = (0..=1024).map(text).collect();
    assert_eq!(texts.len(), 12, "none, and the powers of two from 1 to 1,024");
    assert_eq!(text(3), text(4));
    assert_ne!(text(1500), text(1501));
}

#[tokio::test]
async fn a_database_in_memory_and_other_schemes_are_refused() {
    for url in ["", "mysql://x", "sqlite::memory:", "sqlite://:memory:", "sqlite://", "sqlite://x?mode=memory"] {
        assert!(matches!(Db::open(&Secret::new(url), 1).await, Err(DbError::Url)), "{url}");
    }
    let error = Db::open(&Secret::new("postgres://u:hunter2@[/x"), 1).await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains("hunter2"));
}

#[tokio::test]
async fn a_sqlite_file_needs_its_folder() {
    assert!(Db::open(&Secret::new("sqlite:///nonexistent/folder/x.db"), 1).await.is_err());
}

#[tokio::test]
async fn a_closed_database_does_not_respond() {
    on_each(|test| async move {
        test.db.ping().await.unwrap();
        test.db.close().await;
        assert!(test.db.ping().await.is_err());
    })
    .await;
}

#[tokio::test]
async fn eight_handles_create_one_sqlite_file_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let url = Secret::new(format!("sqlite://{}", folder.path().join("new.db").display()));
    let opened = futures_util::future::join_all((0..8).map(|_| Db::open(&url, 1))).await;
    for db in opened {
        db.unwrap().ping().await.unwrap();
    }
}

#[tokio::test]
async fn statements_sent_together_are_one_transaction() {
    const ADD_ANOTHER: &str = "INSERT INTO counters (id, count) VALUES ($1 + 1, $2) RETURNING id";
    const ALL: &str = "SELECT id, count FROM counters ORDER BY id";
    on_each(|test| async move {
        let db = schema(&test).await;
        let before = db.statements();
        let rows: Vec<(i64,)> =
            db.all_relaxed(&[(ADD_COUNTER, 2), (ADD_ANOTHER, 2)], &args![1_i64, 5_i64]).await.unwrap();
        assert_eq!(rows, [(2,)], "the rows of the last one");
        assert_eq!(db.statements() - before, db.pick(2, 1));
        // The second one fails.
        let both = [(ADD_COUNTER, 2), (SET_COUNT_OF_ALL, 3), (ADD_ANOTHER, 2)];
        for _ in 0..3 {
            let error = db.all_relaxed::<(i64,)>(&both, &args![3_i64, 7_i64, -1_i64]).await.unwrap_err();
            assert!(matches!(error, DbError::Violation(Violation::Check, _)), "{error:?}");
        }
        assert_eq!(db.all::<(i64, i64)>(ALL, &[]).await.unwrap(), [(1, 5), (2, 5)]);
        assert_eq!(db.execute(SET_COUNT, &args![6_i64]).await.unwrap(), 1, "the connection is free again");
    })
    .await;
}

#[tokio::test]
async fn statements_are_counted_in_and_outside_of_transactions() {
    on_each(|TestDb { db, .. }| async move {
        let before = db.statements();
        db.ping().await.unwrap();
        db.all::<(i64,)>("SELECT CAST(1 AS BIGINT)", &[]).await.unwrap();
        assert_eq!(db.statements() - before, 2);
        let mut tx = db.clone().begin().await.unwrap();
        tx.one::<(i64,)>("SELECT CAST(1 AS BIGINT)", &[]).await.unwrap();
        tx.optional::<(i64,)>("SELECT CAST(1 AS BIGINT)", &[]).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(db.statements() - before, 4);
        db.execute("CREATE TABLE counted (id BIGINT)", &[]).await.unwrap();
        assert_eq!(db.statements() - before, 5);
    })
    .await;
}

#[tokio::test]
async fn only_a_relaxed_transaction_does_not_wait_for_the_disk() {
    const LEVEL: (&str, &str) = (
        "SELECT current_setting('synchronous_commit')",
        "SELECT CASE synchronous WHEN 2 THEN 'on' ELSE 'off' END FROM pragma_synchronous",
    );
    async fn level(mut tx: Tx) -> String {
        let (level,): (String,) = tx.one(tx.pick(LEVEL.0, LEVEL.1), &[]).await.unwrap();
        tx.commit().await.unwrap();
        level
    }
    on_each(|TestDb { db, .. }| async move {
        for end in ["commit", "rollback", "drop", "script"] {
            assert_eq!(level(db.begin_relaxed().await.unwrap()).await, "off");
            match end {
                "rollback" => db.begin_relaxed().await.unwrap().rollback().await.unwrap(),
                "drop" => drop(db.begin_relaxed().await.unwrap()),
                "script" => drop(db.all_relaxed::<(i64,)>(&[("SELECT CAST(1 AS BIGINT)", 0)], &[]).await.unwrap()),
                _ => {}
            }
            assert_eq!(level(db.begin().await.unwrap()).await, "on", "after {end}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_full_disk_is_reported_and_later_writes_succeed() {
    let folder = tempfile::tempdir().unwrap();
    let url = Secret::new(format!("sqlite://{}", folder.path().join("full.db").display()));
    let db = Db::open(&url, 1).await.unwrap();
    let mut tx = db.begin().await.unwrap();
    tx.execute("CREATE TABLE samples (id INTEGER PRIMARY KEY, raw BLOB) STRICT", &[]).await.unwrap();
    tx.commit().await.unwrap();
    // Limits the file to its current size.
    let mut tx = db.begin().await.unwrap();
    let _: (i64,) = tx.one("PRAGMA max_page_count = 1", &[]).await.unwrap();
    let raw = vec![1; 1 << 20];
    let full = tx.execute("INSERT INTO samples (id, raw) VALUES (1, $1)", &args![raw.clone()]).await.unwrap_err();
    assert!(full.is_full(), "{full:?}");
    drop(tx);
    // The limit belongs to the connection, which the pool must have replaced.
    let mut tx = db.begin().await.unwrap();
    tx.execute("INSERT INTO samples (id, raw) VALUES (2, $1)", &args![raw]).await.unwrap();
    tx.commit().await.unwrap();
    let (count,): (i64,) = db.one("SELECT COUNT(*) FROM samples", &[]).await.unwrap();
    assert_eq!(count, 1);
}

#[tokio::test]
async fn a_transaction_that_waits_for_its_process_too_long_is_ended() {
    on_each(|test| async move {
        if test.db.pick(false, true) {
            return;
        }
        let mut tx = test.db.begin().await.unwrap();
        let limit: (String,) = tx.one("SHOW idle_in_transaction_session_timeout", &[]).await.unwrap();
        assert_eq!(limit.0, "15s");
        tx.execute("SET LOCAL idle_in_transaction_session_timeout = '100ms'", &[]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(400)).await;
        assert!(tx.one::<(i64,)>("SELECT 1::BIGINT", &[]).await.unwrap_err().is_unavailable());
    })
    .await;
}
