//! The stack of connections in front of the pool, on SQLite only.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::Db;
use crate::testing::{TestDb, on_each};

/// Takes a tenth of a second or more.
const COUNT_TO_A_MILLION: &str =
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000) SELECT COUNT(*) FROM n";
const NUMBER: &str = "SELECT CAST($1 AS BIGINT)";
const WAIT: Duration = Duration::from_secs(20);

/// Runs a test on a SQLite file and closes its connections afterwards.
async fn on_sqlite<F: Future<Output = ()> + Send + 'static>(test: fn(Db) -> F) {
    on_each(move |TestDb { db, url }| async move {
        if db.pick(false, true) {
            let db = Db::open(&url, 1).await.unwrap();
            test(db.clone()).await;
            timeout(WAIT, db.close()).await.expect("no connection is left behind");
            assert!(db.one::<(i64,)>(NUMBER, &crate::args![1_i64]).await.is_err());
        }
    })
    .await;
}

#[tokio::test]
async fn many_callers_share_few_connections() {
    on_sqlite(|db| async move {
        let mut callers = JoinSet::new();
        for number in 0..40_i64 {
            let db = db.clone();
            callers.spawn(async move {
                for turn in 0..20 {
                    let arguments = crate::args![number * 100 + turn];
                    assert_eq!(db.lookup::<(i64,)>(NUMBER, &arguments).await.unwrap(), Some((number * 100 + turn,)));
                    let all: Vec<(i64,)> = db.all(NUMBER, &arguments).await.unwrap();
                    assert_eq!(all, [(number * 100 + turn,)]);
                }
            });
        }
        while let Some(ended) = timeout(WAIT, callers.join_next()).await.expect("nobody waits forever") {
            ended.unwrap();
        }
        let (open, in_use) = db.connections();
        assert!(open <= db.max_connections() && in_use == 0, "{open} open, {in_use} in use");
    })
    .await;
}

#[tokio::test]
async fn the_answer_to_a_cancelled_statement_reaches_no_other_caller() {
    on_sqlite(|db| async move {
        for number in 0..i64::from(db.max_connections()) + 4 {
            let cancelled = timeout(Duration::from_millis(2), db.one::<(i64,)>(COUNT_TO_A_MILLION, &[])).await;
            assert!(cancelled.is_err());
            assert_eq!(db.one::<(i64,)>(NUMBER, &crate::args![number + 2]).await.unwrap(), (number + 2,));
        }
    })
    .await;
}

#[tokio::test]
async fn a_statement_that_fails_leaves_its_connection_usable() {
    on_sqlite(|db| async move {
        for number in 0..i64::from(db.max_connections()) + 4 {
            db.all::<(i64,)>("SELECT missing", &[]).await.unwrap_err();
            db.one::<(i64,)>("SELECT json('{')", &[]).await.unwrap_err();
            assert_eq!(db.one::<(i64,)>(NUMBER, &crate::args![number]).await.unwrap(), (number,));
        }
    })
    .await;
}

#[tokio::test]
async fn the_first_statement_of_a_transaction_begins_it() {
    on_sqlite(|db| async move {
        db.execute("CREATE TABLE numbers (number INTEGER PRIMARY KEY) STRICT", &[]).await.unwrap();
        let add = "INSERT INTO numbers (number) VALUES ($1)";
        // A temporary table is visible only to the connection that creates it.
        db.execute("CREATE TEMP TABLE of_this_connection (number INTEGER) STRICT", &[]).await.unwrap();
        assert_eq!(db.execute(add, &crate::args![1_i64]).await.unwrap(), 1);
        // Without a statement no transaction is open.
        drop(db.begin().await.unwrap());
        db.begin().await.unwrap().commit().await.unwrap();
        db.begin().await.unwrap().rollback().await.unwrap();
        // Counts the rows of the statement, not of what the connection did before.
        let mut tx = db.begin().await.unwrap();
        assert_eq!(tx.execute("DELETE FROM numbers WHERE number = 5", &[]).await.unwrap(), 0);
        assert_eq!(tx.execute(add, &crate::args![2_i64]).await.unwrap(), 1);
        tx.commit().await.unwrap();
        // A failed statement leaves nothing open, in a transaction or alone.
        for _ in 0..3 {
            let mut tx = db.begin().await.unwrap();
            tx.execute(add, &crate::args![1_i64]).await.unwrap_err();
            tx.execute(add, &crate::args![3_i64]).await.unwrap();
            drop(tx);
            db.execute(add, &crate::args![1_i64]).await.unwrap_err();
        }
        db.execute("DELETE FROM of_this_connection", &[]).await.expect("the connection was kept all the time");
        let numbers: Vec<(i64,)> = db.all("SELECT number FROM numbers ORDER BY number", &[]).await.unwrap();
        assert_eq!(numbers, [(1,), (2,)]);
    })
    .await;
}
