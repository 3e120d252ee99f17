//! Writers that commit through the relay: their commit claims the event for the relay, and later
//! writers record outcomes.

use super::*;

const CLAIMED: &str = "SELECT COUNT(*) FROM outbox_lanes WHERE claim_id <> 0";
const LANES: &str = "SELECT COUNT(*) FROM outbox_lanes";

/// Writes an event like a service that waits for its delivery.
async fn commit(relay: &Relay, db: &Db, event: &Event) -> Result<FlushHandle, ferrite_db::DbError> {
    relay.commit(db.begin().await?, event, &[SINK], &[SINK], Clock::system().now_us()).await
}

async fn count(db: &Db, sql: &str) -> i64 {
    db.one::<(i64,)>(sql, &[]).await.unwrap().0
}

async fn started(test: TestDb) -> (Setup, Relay) {
    let setup = Setup::new(test, Clock::system()).await;
    setup.serve().await;
    let relay = setup.relay(&setup.test.db);
    relay.start(RETENTION, &setup.env.life);
    (setup, relay)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_writers_that_wait_are_delivered_in_order_and_leave_no_lane() {
    on_each(|test| async move {
        let (setup, relay) = started(test).await;
        let db = &setup.test.db;
        let mut writers = JoinSet::new();
        for repository in 1..=4 {
            let (relay, db) = (relay.clone(), db.clone());
            writers.spawn(async move {
                for number in 0..50 {
                    let flush = commit(&relay, &db, &issue(repository, number)).await.unwrap();
                    // Some do not wait, so that several events of a repository are in flight.
                    if number % 3 != 0 {
                        flush.wait().await;
                    }
                }
            });
        }
        while let Some(ended) = writers.join_next().await {
            ended.unwrap();
        }
        setup.until_delivered().await;
        for repository in 1..=4 {
            assert_eq!(setup.effects(repository).await, in_order(50));
        }
        eventually("no lane is left", || async { count(db, LANES).await == 0 }).await;
    })
    .await;
}

#[tokio::test]
async fn a_delivery_costs_a_writer_that_waits_no_other_transaction() {
    on_each(|test| async move {
        let (setup, relay) = started(test).await;
        let db = &setup.test.db;
        if db.pick(true, false) {
            // On PostgreSQL outcomes are recorded at once, for writers of other processes.
            return;
        }
        commit(&relay, db, &issue(1, 0)).await.unwrap().wait().await;
        let (mut writes, mut late) = (0, 0);
        for number in 1..=40 {
            let before = db.statements();
            let event = issue(1, number);
            let flush = commit(&relay, db, &event).await.unwrap();
            let started = Instant::now();
            flush.wait().await;
            late += usize::from(started.elapsed() >= Duration::from_millis(40));
            writes += db.statements() - before;
        }
        // The sink uses the same database: two statements per event, besides the event with the
        // outcome of the previous one. The table is polled after 50 ms without an event, and every
        // second.
        assert!(writes <= 40 * 5 + 40, "{writes} statements for 40 events, {late} late");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_commit_leaves_no_claim() {
    on_each(|test| async move {
        let (setup, relay) = started(test).await;
        let db = &setup.test.db;
        for number in 0..60 {
            let event = issue(1, number);
            let limit = Duration::from_micros(50 * u64::try_from(number).unwrap());
            let _ = tokio::time::timeout(limit, commit(&relay, db, &event)).await;
        }
        // All committed events arrive long before the claim ends.
        let started = Instant::now();
        setup.until_delivered().await;
        eventually("no claim is left", || async { count(db, CLAIMED).await == 0 }).await;
        assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
        let effects = setup.effects(1).await;
        assert!(effects.is_sorted() && !effects.is_empty(), "{effects:?}");
        assert_eq!(effects.len() as i64, count(db, "SELECT COUNT(*) FROM outbox").await);
    })
    .await;
}

#[tokio::test]
async fn an_event_that_is_refused_after_its_commit_is_delivered_later_and_before_those_that_follow() {
    on_each(|test| async move {
        let (setup, relay) = started(test).await;
        let db = &setup.test.db;
        setup.set_refused(1, true);
        for number in 0..3 {
            commit(&relay, db, &issue(1, number)).await.unwrap().wait().await;
            commit(&relay, db, &issue(2, number)).await.unwrap().wait().await;
        }
        eventually("those of the other repository arrive", || async { setup.effects(2).await == in_order(3) }).await;
        assert!(setup.effects(1).await.is_empty());
        setup.set_refused(1, false);
        setup.until_delivered().await;
        assert_eq!(setup.effects(1).await, in_order(3));
    })
    .await;
}

#[tokio::test]
async fn a_commit_that_fails_delivers_nothing() {
    on_each(|test| async move {
        let (setup, relay) = started(test).await;
        let db = &setup.test.db;
        let mut tx = db.begin().await.unwrap();
        tx.execute(EFFECT, &args![9_i64, 9_i64]).await.unwrap();
        let _ = tx.execute_later("INSERT INTO effects (repository_id, number) VALUES ($1, NULL)", &args![9_i64]).await;
        let event = issue(1, 0);
        assert!(relay.commit(tx, &event, &[SINK], &[SINK], 1).await.is_err());
        commit(&relay, db, &issue(1, 1)).await.unwrap().wait().await;
        setup.until_delivered().await;
        assert_eq!(setup.effects(1).await, [1]);
        assert!(setup.effects(9).await.is_empty());
    })
    .await;
}
