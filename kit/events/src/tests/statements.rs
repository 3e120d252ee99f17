//! Number of statements per event, however many events wait.

use super::*;

/// Statements sent for an event. SQLite sends those of a transaction together.
const CLAIM: (u64, u64) = (2, 2);
/// The outcome of one lane and the next claim.
const SETTLE_ONE: (u64, u64) = (2, 1);
/// The same for several lanes, which are first locked in order.
const SETTLE_MANY: (u64, u64) = (3, 1);

async fn counted<T>(db: &Db, work: impl Future<Output = T>) -> (u64, T) {
    let before = db.statements();
    let value = work.await;
    (db.statements() - before, value)
}

/// Claims and settles once. Returns the statements of both.
async fn claim_and_settle(db: &Db) -> (u64, u64) {
    let request = ClaimRequest::new(1, 1_000_000);
    let (claims, lanes) = counted(db, claim(db, SINK, &request)).await;
    let mut settlement = Settlement::default();
    lanes.unwrap().iter().for_each(|lane| settlement.delivered(lane, 1));
    let next = ClaimRequest::nothing(1);
    let (settlements, left) = counted(db, settle_and_claim(db, SINK, Some(&settlement), &next)).await;
    assert!(left.unwrap().is_empty());
    (claims, settlements)
}

#[tokio::test]
async fn an_event_costs_few_statements_and_a_batch_no_more() {
    on_each(|test| async move {
        service_tables(&test.db).await;
        let db = &test.db;
        let pick = |(postgres, sqlite)| db.pick(postgres, sqlite);
        let mut tx = db.begin().await.unwrap();
        let (appended, done) = counted(db, append(&mut tx, &issue(1, 0), &[SINK, "another"], 0)).await;
        done.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(appended, 1, "for any number of subscribers");
        assert_eq!(claim_and_settle(db).await, (pick(CLAIM), pick(SETTLE_ONE)));
        for number in 0..100 {
            write(db, &issue(number % 10 + 1, number)).await;
        }
        assert_eq!(claim_and_settle(db).await, (pick(CLAIM), pick(SETTLE_MANY)));
    })
    .await;
}

#[tokio::test]
async fn received_events_are_recorded_by_one_statement() {
    on_each(|test| async move {
        service_tables(&test.db).await;
        let events: Vec<_> = (0..5).map(|number| issue(1, number)).collect();
        let mut tx = test.db.begin().await.unwrap();
        let (count, new) = counted(&test.db, delivery::record(&mut tx, &events[..3], 1)).await;
        assert_eq!((count, new.unwrap().len()), (1, 3));
        // One was recorded before, and one comes twice.
        let repeated = [&events[2..], &events[4..]].concat();
        let new = delivery::record(&mut tx, &repeated, 1).await.unwrap();
        assert_eq!(new, [&events[3], &events[4]].map(|event| event.event_id.clone()).into());
        assert!(delivery::record(&mut tx, &[], 1).await.unwrap().is_empty());
        tx.commit().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_poll_without_events_is_one_read() {
    on_each(|test| async move {
        service_tables(&test.db).await;
        let request = ClaimRequest::new(1, 2);
        let (count, lanes) = counted(&test.db, claim(&test.db, SINK, &request)).await;
        assert!(lanes.unwrap().is_empty());
        assert_eq!(count, 1);
    })
    .await;
}

#[tokio::test]
async fn sqlite_reads_lanes_and_rows_by_index() {
    on_each(|test| async move {
        service_tables(&test.db).await;
        let db = &test.db;
        if db.pick(true, false) {
            // PostgreSQL plans by its statistics.
            return;
        }
        for count in [1, 64] {
            let mut settlement = Settlement::default();
            for repository_id in 1..=count {
                settlement.postponed(&Lane { repository_id, claim_id: 1, attempts: 0, rows: Vec::new() }, 1, 1);
            }
            let mut args = args![SINK, 1_i64, 1_i64, 1_i64, 64_i64].to_vec();
            let mut statements = settlement.statements(db, &mut args);
            statements.extend(rows::claim_statements(db).iter().map(|sql| (*sql).to_owned()));
            for sql in statements {
                let plan = format!("EXPLAIN QUERY PLAN {sql}");
                let steps: Vec<(i64, i64, i64, String)> = db.all(&plan, &args).await.unwrap();
                for (.., step) in steps {
                    // Only the lanes of the settlement, which are arguments, are scanned.
                    let is_scan = step.starts_with("SCAN ") && !["SCAN s", "SCAN t"].contains(&step.as_str());
                    assert!(
                        !is_scan || step.ends_with("CONSTANT ROWS") || step.ends_with("CONSTANT ROW"),
                        "{step}: {sql}"
                    );
                    assert!(!step.ends_with("(subscriber=?)"), "{step}: {sql}");
                }
            }
        }
    })
    .await;
}
