//! Claims and settlements of lanes without a relay: order, limits, replaced claims, concurrent
//! transactions, purges.

use super::*;
use crate::purge;

const LANES: &str = "SELECT repository_id, waiting_count FROM outbox_lanes ORDER BY repository_id";
const ROWS: &str = "SELECT COUNT(*) FROM outbox";
const INBOX: &str = "SELECT COUNT(*) FROM inbox";
const DELETE_ROWS: &str = "DELETE FROM outbox WHERE repository_id = $1";
const END_US: i64 = 1_000_000;

async fn setup(test: &TestDb) -> Db {
    service_tables(&test.db).await;
    test.db.clone()
}

/// Returns the repositories of the lanes with the numbers of their claimed events.
fn numbers(lanes: &[Lane]) -> Vec<(i64, Vec<i64>)> {
    let number = |row: &rows::OutboxRow| {
        let event: Event = prost::Message::decode(row.payload.as_slice()).unwrap();
        let Some(Fact::IssueChanged(fact)) = event.fact else { panic!("another fact") };
        fact.number
    };
    lanes.iter().map(|lane| (lane.repository_id, lane.rows.iter().map(number).collect())).collect()
}

/// Returns the settlement of a claim whose events were all delivered.
fn all_delivered(lanes: &[Lane], now_us: i64) -> Settlement {
    let mut settlement = Settlement::default();
    lanes.iter().for_each(|lane| settlement.delivered(lane, now_us));
    settlement
}

async fn lanes(db: &Db) -> Vec<(i64, i64)> {
    db.all(LANES, &[]).await.unwrap()
}

#[tokio::test]
async fn a_later_event_is_not_claimed_while_an_earlier_one_is() {
    on_each(|test| async move {
        let db = &setup(&test).await;
        write(db, &issue(1, 0)).await;
        let request = ClaimRequest::new(10, 100);
        let first = claim(db, SINK, &request).await.unwrap();
        assert_eq!(numbers(&first), [(1, vec![0])]);
        write(db, &issue(1, 1)).await;
        write(db, &issue(2, 0)).await;
        let others = claim(db, SINK, &ClaimRequest::new(10, 1_000)).await.unwrap();
        assert_eq!(numbers(&others), [(2, vec![0])]);
        let mut refused = Settlement::default();
        refused.postponed(&first[0], 50, 1);
        settle(db, &refused).await;
        assert!(
            claim(db, SINK, &ClaimRequest::new(20, 100)).await.unwrap().is_empty(),
            "it waits for its next attempt"
        );
        let both = claim(db, SINK, &ClaimRequest::new(60, 160)).await.unwrap();
        assert_eq!(numbers(&both), [(1, vec![0, 1])], "then both are claimed, in order");
        assert_eq!(both[0].attempts, 1);
    })
    .await;
}

#[tokio::test]
async fn a_claim_takes_a_share_of_every_lane_and_the_rest_follows_in_order() {
    on_each(|test| async move {
        let db = &setup(&test).await;
        for number in 0..40 {
            for repository in 1..=3 {
                write(db, &issue(repository, number)).await;
            }
        }
        let mut seen = vec![Vec::new(); 3];
        let mut request = ClaimRequest::new(1, END_US);
        let mut claimed = claim(db, SINK, &request).await.unwrap();
        while !claimed.is_empty() {
            assert!(claimed.iter().map(|lane| lane.rows.len()).sum::<usize>() <= 64);
            assert_eq!(claimed.len(), 3, "no lane waits for the others");
            for (repository, numbers) in numbers(&claimed) {
                seen[usize::try_from(repository).unwrap() - 1].extend(numbers);
            }
            let settlement = all_delivered(&claimed, 1);
            request = ClaimRequest::new(1, END_US);
            claimed = settle_and_claim(db, SINK, Some(&settlement), &request).await.unwrap();
        }
        assert_eq!(seen, vec![in_order(40); 3]);
        assert!(lanes(db).await.is_empty(), "a lane goes with its last event");
        assert_eq!(db.one::<(i64,)>(WAITING, &[]).await.unwrap(), (0,));
    })
    .await;
}

#[tokio::test]
async fn more_lanes_than_a_claim_takes_have_their_turn() {
    on_each(|test| async move {
        let db = &setup(&test).await;
        for repository in 1..=100 {
            write(db, &issue(repository, 0)).await;
        }
        let first = ClaimRequest::new(1, END_US);
        let claimed = claim(db, SINK, &first).await.unwrap();
        assert_eq!(claimed.len(), 64);
        let settlement = all_delivered(&claimed, 1);
        let rest = settle_and_claim(db, SINK, Some(&settlement), &ClaimRequest::new(1, END_US)).await.unwrap();
        assert_eq!(rest.len(), 36);
        assert_eq!(lanes(db).await.len(), 36);
    })
    .await;
}

#[tokio::test]
async fn a_settlement_after_the_claim_was_replaced_changes_nothing() {
    on_each(|test| async move {
        let db = &setup(&test).await;
        write(db, &issue(1, 0)).await;
        let old = ClaimRequest::new(1, 2);
        let claimed = claim(db, SINK, &old).await.unwrap();
        let new = ClaimRequest::new(3, 4);
        let again = claim(db, SINK, &new).await.unwrap();
        assert_eq!(numbers(&again), numbers(&claimed), "the first claim has ended");
        settle(db, &all_delivered(&claimed, 3)).await;
        assert_eq!(db.one::<(i64,)>(WAITING, &[]).await.unwrap(), (1,));
        assert_eq!(lanes(db).await, [(1, 1)]);
        settle(db, &all_delivered(&again, 3)).await;
        assert!(lanes(db).await.is_empty());
        // A lane that was deleted and created again is a different one.
        write(db, &issue(1, 1)).await;
        settle(db, &all_delivered(&again, 3)).await;
        assert_eq!(lanes(db).await, [(1, 1)]);
    })
    .await;
}

#[tokio::test]
async fn a_lane_whose_events_were_deleted_by_hand_holds_up_no_other() {
    on_each(|test| async move {
        let setup = Setup::new(test, Clock::system()).await;
        setup.serve().await;
        let db = &setup.test.db;
        write(db, &issue(1, 0)).await;
        write(db, &issue(2, 0)).await;
        db.execute(DELETE_ROWS, &args![1_i64]).await.unwrap();
        setup.relay(db).start(RETENTION, &setup.env.life);
        setup.until_delivered().await;
        assert_eq!(setup.effects(2).await, [0]);
        write(db, &issue(1, 1)).await;
        setup.until_delivered().await;
        assert_eq!(setup.effects(1).await, [1]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_written_while_their_lane_is_settled_are_not_lost() {
    on_each(|test| async move {
        let setup = Setup::new(test, Clock::system()).await;
        setup.serve().await;
        let relay = setup.relay(&setup.test.db);
        relay.start(RETENTION, &setup.env.life);
        for number in 0..150 {
            let event = issue(1, number);
            let flush = relay.flush(&event, &[SINK]);
            write(&setup.test.db, &event).await;
            // Writes the next event when this one is delivered, while the relay records that.
            flush.wait().await;
        }
        setup.until_delivered().await;
        assert_eq!(setup.effects(1).await, in_order(150));
        let db = &setup.test.db;
        eventually("no lane is left", || async { lanes(db).await.is_empty() }).await;
    })
    .await;
}

#[tokio::test]
async fn an_open_transaction_delays_the_events_of_its_repository_only() {
    on_each(|test| async move {
        let db = &setup(&test).await;
        write(db, &issue(1, 0)).await;
        write(db, &issue(2, 0)).await;
        if db.pick(false, true) {
            // SQLite has one writer at a time.
            return;
        }
        let mut open = db.begin().await.unwrap();
        append(&mut open, &issue(1, 1), &[SINK], 0).await.unwrap();
        let claimed = claim(db, SINK, &ClaimRequest::new(1, END_US)).await.unwrap();
        assert_eq!(numbers(&claimed), [(2, vec![0])], "the claim does not wait");
        open.commit().await.unwrap();
        let claimed = claim(db, SINK, &ClaimRequest::new(1, END_US)).await.unwrap();
        assert_eq!(numbers(&claimed), [(1, vec![0, 1])]);
    })
    .await;
}

#[tokio::test]
async fn a_lane_that_grows_while_it_is_settled_keeps_its_new_event() {
    on_each(|test| async move {
        let db = &setup(&test).await;
        if db.pick(false, true) {
            // SQLite has one writer at a time.
            return;
        }
        for repository in 1..=2 {
            write(db, &issue(repository, 0)).await;
        }
        let request = ClaimRequest::new(1, END_US);
        let claimed = claim(db, SINK, &request).await.unwrap();
        let mut open = db.begin().await.unwrap();
        append(&mut open, &issue(1, 1), &[SINK], 0).await.unwrap();
        let settlement = all_delivered(&claimed, 1);
        tokio::join!(settle(db, &settlement), async {
            // Meanwhile the settlement waits for the lane.
            tokio::time::sleep(Duration::from_millis(100)).await;
            open.commit().await.unwrap();
        });
        assert_eq!(lanes(db).await, [(1, 1)]);
        let claimed = claim(db, SINK, &ClaimRequest::new(1, END_US)).await.unwrap();
        assert_eq!(numbers(&claimed), [(1, vec![1])]);
    })
    .await;
}

#[tokio::test]
async fn old_rows_are_purged_in_batches_and_waiting_ones_are_not() {
    on_each(|test| async move {
        let db = &setup(&test).await;
        for number in 0..250 {
            write(db, &issue(1, number)).await;
        }
        write(db, &issue(2, 0)).await;
        let mut tx = db.begin().await.unwrap();
        assert!(first_seen(&mut tx, &issue(1, 0), 9).await.unwrap());
        assert!(first_seen(&mut tx, &issue(1, 1), 10).await.unwrap());
        tx.commit().await.unwrap();
        loop {
            let request = ClaimRequest::new(1, END_US);
            let claimed = claim(db, SINK, &request).await.unwrap();
            let Some(lane) = claimed.iter().find(|lane| lane.repository_id == 1) else { break };
            let mut settlement = Settlement::default();
            settlement.delivered(lane, 1);
            assert!(settle_and_claim(db, SINK, Some(&settlement), &ClaimRequest::nothing(9)).await.unwrap().is_empty());
        }
        assert_eq!(purge::batch(db, 9).await.unwrap(), 0, "the rows are not old enough");
        assert_eq!(purge::batch(db, 10).await.unwrap(), 201, "200 of one table and one of the other");
        assert_eq!(purge::batch(db, 10).await.unwrap(), 50);
        assert_eq!(purge::batch(db, 10).await.unwrap(), 0);
        assert_eq!(db.one::<(i64,)>(ROWS, &[]).await.unwrap(), (1,));
        assert_eq!(db.one::<(i64,)>(INBOX, &[]).await.unwrap(), (1,));
    })
    .await;
}
