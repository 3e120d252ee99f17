//! The stack of connections in front of the pool, on PostgreSQL only.

use std::time::Duration;

use sqlx::{Connection, PgConnection};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::Db;
use crate::testing::{TestDb, on_each};

const SLEEP: &str = "SELECT CAST(1 AS BIGINT) FROM (SELECT pg_sleep(0.1)) AS slept";
const TERMINATE: &str = "SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity \
     WHERE datname = current_database() AND pid <> pg_backend_pid()";
const NUMBER: &str = "SELECT CAST($1 AS BIGINT)";
const PLAN_MODE: &str = "SELECT current_setting('plan_cache_mode')";
const WAIT: Duration = Duration::from_secs(20);

/// Runs a test on a PostgreSQL database that is opened with this number of connections.
async fn on_postgres<F: Future<Output = ()> + Send + 'static>(connections: u32, test: fn(Db, String) -> F) {
    on_each(move |TestDb { db, url }| async move {
        if db.pick(true, false) {
            let few = Db::open(&url, connections).await.unwrap();
            test(few.clone(), url.expose().to_owned()).await;
            timeout(WAIT, few.close()).await.expect("no connection is left behind");
        }
    })
    .await;
}

async fn use_three(db: &Db) {
    let one = || db.one::<(i64,)>(SLEEP, &[]);
    let (first, second, third) = tokio::join!(one(), one(), db.lookup::<(i64,)>(SLEEP, &[]));
    assert_eq!((first.unwrap(), second.unwrap(), third.unwrap()), ((1,), (1,), Some((1,))));
}

#[tokio::test]
async fn reads_and_transactions_go_on_after_the_loss_of_all_connections() {
    on_postgres(4, |db, url| async move {
        for is_read in [true, false] {
            use_three(&db).await;
            let mut other = PgConnection::connect(&url).await.unwrap();
            let lost: i64 = sqlx::query_scalar(TERMINATE).fetch_one(&mut other).await.unwrap();
            assert!(lost >= 3, "{lost}");
            if is_read {
                assert_eq!(db.one::<(i64,)>(NUMBER, &crate::args![7_i64]).await.unwrap(), (7,));
                assert_eq!(db.lookup::<(i64,)>(NUMBER, &crate::args![8_i64]).await.unwrap(), Some((8,)));
            } else {
                let mut tx = db.begin().await.unwrap();
                assert_eq!(tx.one::<(i64,)>(NUMBER, &crate::args![7_i64]).await.unwrap(), (7,));
                tx.commit().await.unwrap();
            }
        }
    })
    .await;
}

#[tokio::test]
async fn many_callers_share_few_connections() {
    on_postgres(4, |db, _| async move {
        let mut callers = JoinSet::new();
        for number in 0..40_i64 {
            let db = db.clone();
            callers.spawn(async move {
                for turn in 0..20 {
                    let arguments = crate::args![number * 100 + turn];
                    assert_eq!(db.one::<(i64,)>(NUMBER, &arguments).await.unwrap(), (number * 100 + turn,));
                    let looked_up: Vec<(i64,)> = db.lookup_all(NUMBER, &arguments).await.unwrap();
                    assert_eq!(looked_up, [(number * 100 + turn,)]);
                    if turn % 5 == 0 {
                        let mut tx = db.begin().await.unwrap();
                        assert_eq!(tx.one::<(i64,)>(NUMBER, &arguments).await.unwrap(), (number * 100 + turn,));
                        tx.commit().await.unwrap();
                    }
                }
            });
        }
        while let Some(ended) = timeout(WAIT, callers.join_next()).await.expect("nobody waits forever") {
            ended.unwrap();
        }
        assert!(db.connections().0 <= 4, "{:?}", db.connections());
    })
    .await;
}

#[tokio::test]
async fn the_answer_to_a_cancelled_statement_reaches_no_other_caller() {
    on_postgres(1, |db, _| async move {
        for number in 0..6_i64 {
            let cancelled = timeout(Duration::from_millis(20), db.one::<(i64,)>(SLEEP, &[])).await;
            assert!(cancelled.is_err());
            assert_eq!(db.one::<(i64,)>(NUMBER, &crate::args![number + 2]).await.unwrap(), (number + 2,));
        }
    })
    .await;
}

#[tokio::test]
async fn a_statement_that_fails_leaves_its_connection_usable() {
    on_postgres(1, |db, _| async move {
        for number in 0..6_i64 {
            db.execute("SELECT 1 / 0", &[]).await.unwrap_err();
            db.all::<(i64,)>("SELECT missing", &[]).await.unwrap_err();
            assert_eq!(db.one::<(i64,)>(NUMBER, &crate::args![number]).await.unwrap(), (number,));
        }
    })
    .await;
}

#[tokio::test]
async fn lookups_and_pages_are_planned_without_their_arguments() {
    on_postgres(8, |db, _| async move {
        let other: (String,) = db.one(PLAN_MODE, &[]).await.unwrap();
        let lookups: Vec<(String,)> = db.lookup_all(PLAN_MODE, &[]).await.unwrap();
        let pages: Vec<(String,)> = db.page(PLAN_MODE, &[]).await.unwrap();
        let once = [("force_generic_plan".to_owned(),)];
        assert_eq!((other.0.as_str(), &lookups[..], &pages[..]), ("auto", &once[..], &once[..]));
        assert!(db.connections().0 <= 8, "{:?}", db.connections());
    })
    .await;
}
