//! Tests of the size limits.

use ferrite_db::Db;
use ferrite_db::args;
use ferrite_events::part_uuid;
use ferrite_proto::events::Event;
use ferrite_proto::id::{HookId, UserId};

use super::*;
use crate::store::attempts::Attempt;
use crate::store::claims;
use crate::store::events::{self, NewEvent, Source};
use crate::store::outcomes::{self, HookEffect, Outcome, Settled, Settlement};
use crate::store::purge;
use crate::store::queues::{self, NewDelivery};
use crate::testing::{FakePeers, on_each_schema};

const PAYLOAD_BYTES: usize = 10_000;
const HOOK: HookId = HookId(5);
const NOW_US: i64 = 1_000_000;

/// Limits of 100,000 bytes per repository and 200,000 per account. An event takes slightly more
/// than 10,500.
async fn retention(db: &Db) -> (Retention, FakePeers) {
    let peers = FakePeers::start().await;
    let upstream = Upstream::new(peers.channel.clone(), peers.channel.clone().into());
    let settings = FeedArgs { feed_days: 7, feed_events: 10_000, feed_bytes: 100_000, owner_bytes: 200_000 };
    let store = EventTable::new(db.clone());
    (Retention { store, upstream, settings, clock: Clock::fixed(NOW_US) }, peers)
}

/// Adds events to a repository's feed. Returns their ids.
async fn add(db: &Db, repository: i64, parts: std::ops::Range<i64>) -> Vec<i64> {
    add_of(db, UserId(7), repository, parts).await
}

async fn add_of(db: &Db, user: UserId, repository: i64, parts: std::ops::Range<i64>) -> Vec<i64> {
    let new = |part| NewEvent {
        uuid: part_uuid("test", repository * 100_000 + part),
        repository: RepositoryId(repository),
        source: Source::Git,
        user,
        name: "push",
        fact: Event { repository_id: repository, ..Event::default() },
        payload: Some("x".repeat(PAYLOAD_BYTES)),
        is_dispatched: true,
        is_in_feed: true,
        happened_us: NOW_US,
    };
    let new: Vec<_> = parts.map(new).collect();
    let mut tx = db.begin().await.unwrap();
    events::lock_repository(&mut tx, RepositoryId(repository)).await.unwrap();
    let ids = events::insert(&mut tx, &new, NOW_US).await.unwrap();
    tx.commit().await.unwrap();
    ids
}

/// Adds a delivery of each event, all in one queue.
async fn deliver(db: &Db, repository: i64, ids: &[i64]) {
    let new = |id: &i64| NewDelivery {
        uuid: part_uuid("delivery", *id).to_string(),
        hook: HOOK,
        event_id: *id,
        repository: RepositoryId(repository),
        source: 1,
        bytes: 0,
    };
    let new: Vec<_> = ids.iter().map(new).collect();
    let mut tx = db.begin().await.unwrap();
    queues::enqueue(&mut tx, &new, NOW_US).await.unwrap();
    tx.commit().await.unwrap();
}

/// Sends the waiting deliveries. Each response has `response_bytes`.
async fn send_all(db: &Db, response_bytes: usize) {
    while let Some((claim, head)) = {
        let due = claims::due(db, NOW_US, &[]).await.unwrap();
        claims::claim(db, &due, NOW_US, NOW_US + 1).await.unwrap().pop()
    } {
        let attempt = Attempt {
            number: 1,
            started_us: NOW_US,
            duration_ms: 1,
            shown_url: "http://a/".to_owned(),
            request_headers: "[]".to_owned(),
            request_body: Some(b"{}".to_vec()),
            is_request_cut: false,
            response_status: Some(200),
            response_headers: Some("[]".to_owned()),
            response_body: Some(vec![7; response_bytes]),
            is_response_cut: false,
            error: None,
        };
        let (outcome, effect) = (Outcome::Succeeded, HookEffect::Unchanged);
        let result = Settlement { outcome, effect, attempt, lease_until_us: None, now_us: NOW_US };
        assert_eq!(outcomes::settle(db, &claim, &head, &result).await.unwrap(), Settled::Released);
    }
}

/// Returns the ids of a repository's events, after checking its counted bytes against the rows.
async fn left(db: &Db, repository: i64) -> Vec<i64> {
    let sql = "SELECT r.kept_bytes, CAST(COALESCE((SELECT SUM(bytes) FROM events WHERE repository_id = $1), 0) \
         + COALESCE((SELECT SUM(bytes) FROM deliveries WHERE repository_id = $1), 0) AS BIGINT) \
         FROM hook_repositories r WHERE r.repository_id = $1";
    let (counted, actual): (i64, i64) = db.one(sql, &args![repository]).await.unwrap();
    assert_eq!(counted, actual, "repository {repository}");
    let sql = "SELECT id FROM events WHERE repository_id = $1 ORDER BY id";
    let rows: Vec<(i64,)> = db.all(sql, &args![repository]).await.unwrap();
    rows.into_iter().map(|(id,)| id).collect()
}

async fn number(db: &Db, sql: &str) -> i64 {
    db.one::<(i64,)>(sql, &[]).await.unwrap().0
}

#[tokio::test]
async fn the_oldest_events_of_a_repository_go_beyond_its_bytes() {
    on_each_schema(&crate::migrations(), |db| async move {
        let (retention, _peers) = retention(&db).await;
        let ids = add(&db, 1, 0..9).await;
        retention.look_at(&[RepositoryId(1)]).await.unwrap();
        assert_eq!(left(&db, 1).await, ids, "they are within the bound");
        let ids = [ids, add(&db, 1, 9..30).await].concat();
        let others = add(&db, 2, 0..2).await;
        retention.look_at(&[RepositoryId(1), RepositoryId(2)]).await.unwrap();
        // Seven eighths of the limit are eight events.
        assert_eq!(left(&db, 1).await, ids[22..]);
        assert_eq!(left(&db, 2).await, others);
    })
    .await;
}

#[tokio::test]
async fn the_user_who_fills_a_repository_loses_events_first() {
    on_each_schema(&crate::migrations(), |db| async move {
        let (retention, _peers) = retention(&db).await;
        let others = add(&db, 1, 0..4).await;
        let many = add_of(&db, UserId(8), 1, 4..34).await;
        retention.look_at(&[RepositoryId(1)]).await.unwrap();
        assert_eq!(left(&db, 1).await, [&others[..], &many[26..]].concat());
        // This holds even while deliveries wait for them.
        let more = add_of(&db, UserId(8), 1, 34..42).await;
        deliver(&db, 1, &[&many[26..], &more].concat()).await;
        retention.look_at(&[RepositoryId(1)]).await.unwrap();
        assert_eq!(left(&db, 1).await, [&others[..], &more[4..]].concat());
    })
    .await;
}

#[tokio::test]
async fn tests_of_hooks_without_a_repository_have_a_bound_too() {
    on_each_schema(&crate::migrations(), |db| async move {
        let (retention, _peers) = retention(&db).await;
        let ids = add(&db, NO_REPOSITORY.0, 0..30).await;
        retention.look_at_all().await.unwrap();
        assert_eq!(left(&db, NO_REPOSITORY.0).await, ids[22..]);
    })
    .await;
}

#[tokio::test]
async fn of_an_account_the_largest_repository_loses_events() {
    on_each_schema(&crate::migrations(), |db| async move {
        let (retention, peers) = retention(&db).await;
        for repository in 1..=4 {
            // `ada` owns all but the last.
            peers.add_repository(repository, (repository == 4).then_some(9));
        }
        let small = [add(&db, 1, 0..6).await, add(&db, 2, 0..6).await];
        add(&db, 3, 0..9).await;
        let of_others = add(&db, 4, 0..9).await;
        retention.look_at_all().await.unwrap();
        assert_eq!(left(&db, 3).await.len(), 4, "seven eighths of the bound are left to the account");
        assert_eq!([left(&db, 1).await, left(&db, 2).await], small);
        assert_eq!(left(&db, 4).await, of_others);
    })
    .await;
}

#[tokio::test]
async fn delivery_logs_count_and_go_with_their_events() {
    on_each_schema(&crate::migrations(), |db| async move {
        let (retention, _peers) = retention(&db).await;
        let ids = add(&db, 1, 0..6).await;
        deliver(&db, 1, &ids).await;
        send_all(&db, 60_000).await;
        assert_eq!(left(&db, 1).await, ids);
        retention.look_at(&[RepositoryId(1)]).await.unwrap();
        assert_eq!(left(&db, 1).await, ids[5..], "one event with its delivery takes 71,000 bytes");
        let rows = ["SELECT COUNT(*) FROM deliveries", "SELECT COUNT(*) FROM attempts"].map(|sql| number(&db, sql));
        let [deliveries, attempts] = rows;
        assert_eq!((deliveries.await, attempts.await), (1, 1));
    })
    .await;
}

#[tokio::test]
async fn waiting_deliveries_go_last_and_are_cancelled() {
    on_each_schema(&crate::migrations(), |db| async move {
        let (retention, _peers) = retention(&db).await;
        let waiting = add(&db, 1, 0..5).await;
        deliver(&db, 1, &waiting).await;
        let others = add(&db, 1, 5..12).await;
        retention.look_at(&[RepositoryId(1)]).await.unwrap();
        assert_eq!(left(&db, 1).await, [&waiting[..], &others[4..]].concat());
        // The hook is paused.
        let more = add(&db, 1, 12..20).await;
        deliver(&db, 1, &others[4..]).await;
        deliver(&db, 1, &more).await;
        retention.look_at(&[RepositoryId(1)]).await.unwrap();
        assert_eq!(left(&db, 1).await, more);
        let count = number(&db, "SELECT CAST(SUM(waiting) AS BIGINT) FROM lanes").await;
        assert_eq!(count, 8);
        // A queue that is being sent loses nothing.
        let due = claims::due(&db, NOW_US, &[]).await.unwrap();
        assert_eq!(claims::claim(&db, &due, NOW_US, NOW_US + 1).await.unwrap().len(), 1);
        let last = add(&db, 1, 20..22).await;
        deliver(&db, 1, &last).await;
        retention.look_at(&[RepositoryId(1)]).await.unwrap();
        assert_eq!(left(&db, 1).await, [more, last].concat());
    })
    .await;
}

#[tokio::test]
async fn a_deleted_repository_has_no_feed_and_keeps_its_deliveries() {
    on_each_schema(&crate::migrations(), |db| async move {
        let (retention, _peers) = retention(&db).await;
        let ids = add(&db, 1, 0..4).await;
        deliver(&db, 1, &ids[2..]).await;
        let mut tx = db.begin().await.unwrap();
        purge::repository(&mut tx, RepositoryId(1), NOW_US).await.unwrap();
        events::keep_snapshot(&mut tx, RepositoryId(1), &Default::default()).await.unwrap();
        tx.commit().await.unwrap();
        retention.look_at_all().await.unwrap();
        assert_eq!(left(&db, 1).await, ids[2..]);
        let snapshots = "SELECT COUNT(*) FROM hook_repositories WHERE snapshot IS NOT NULL";
        assert_eq!(number(&db, snapshots).await, 1);
        send_all(&db, 1).await;
        let hook = purge::hooks_with_deliveries(&db, 0).await.unwrap().pop().unwrap();
        assert!(!purge::deliveries(&db, &hook, 0, 1).await.unwrap());
        assert_eq!(left(&db, 1).await, [0_i64; 0]);
        retention.look_at_all().await.unwrap();
        assert_eq!(number(&db, snapshots).await, 0);
    })
    .await;
}

#[tokio::test]
async fn the_bounds_are_held_as_soon_as_much_was_added() {
    on_each_schema(&crate::migrations(), |db| async move {
        let (retention, peers) = retention(&db).await;
        retention.clone().start(&peers.life);
        add(&db, 1, 0..30).await;
        retention.store.grown().add(RepositoryId(1), 5 * 1024 * 1024);
        ferrite_core::testing::eventually("the oldest events are gone", async || left(&db, 1).await.len() == 8).await;
    })
    .await;
}
