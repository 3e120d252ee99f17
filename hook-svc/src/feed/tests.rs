//! Feeds on both databases, with stand-ins for repo-svc and git-svc.

use ferrite_kit::args;
use ferrite_kit::db::Db;
use ferrite_kit::outbox::part_uuid;
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::{Event, RefUpdate, RefsUpdated};
use ferrite_rest::links::Links;
use tonic::Code;

use super::purge::purge;
use super::*;
use crate::store::events::{self, NewEvent, Source};
use crate::testing::{FakePeers, on_each_schema};
use crate::upstream::Upstream;

const REPOSITORY: RepositoryId = RepositoryId(42);
const DAY_US: i64 = 86_400_000_000;

struct Setup {
    db: Db,
    peers: FakePeers,
    feed: Feed,
}

impl Setup {
    async fn new(db: Db) -> Self {
        let peers = FakePeers::start().await;
        peers.add_repository(REPOSITORY.0, None);
        let store = EventStore::new(db.clone());
        let upstream = Upstream::new(peers.channel.clone(), peers.channel.clone().into());
        let renderer = Renderer::new(store.clone(), upstream, Links::new("http://h", "h:22"));
        let feed = Feed::new(store, renderer, FeedWaiters::default(), peers.life.clone());
        Self { db, peers, feed }
    }

    /// Adds pushes whose new ends are these numbers, received at `now_us`.
    async fn push(&self, numbers: std::ops::Range<i64>, now_us: i64) {
        let new = |number: i64| {
            let new_id = number.to_string();
            let update = RefUpdate { name: b"refs/heads/main".to_vec(), old_id: "1".to_owned(), new_id };
            let fact = Fact::RefsUpdated(RefsUpdated { updates: vec![update], user_id: 7, ..Default::default() });
            NewEvent {
                uuid: part_uuid("test", number),
                repository: REPOSITORY,
                source: Source::Git,
                name: "push",
                fact: Event { fact: Some(fact), ..Event::default() },
                payload: None,
                is_dispatched: true,
                is_in_feed: true,
            }
        };
        let new: Vec<_> = numbers.map(new).collect();
        let mut tx = self.db.begin().await.unwrap();
        events::lock_repository(&mut tx, REPOSITORY).await.unwrap();
        events::insert(&mut tx, &new, now_us).await.unwrap();
        tx.commit().await.unwrap();
        self.feed.waiters.notify(&[REPOSITORY]);
    }

    async fn page(&self, after: i64, limit: usize, wait: Duration) -> Result<Vec<FeedItem>, FeedError> {
        self.feed.next_page(REPOSITORY, after, limit, None, Instant::now() + wait).await
    }
}

/// Returns the new ends of the pushes.
fn numbers(page: &[FeedItem]) -> Vec<i64> {
    let after = |item: &FeedItem| -> String {
        let payload: serde_json::Value = serde_json::from_str(&item.payload).unwrap();
        payload["after"].as_str().unwrap().to_owned()
    };
    page.iter().map(|item| after(item).parse().unwrap()).collect()
}

#[tokio::test]
async fn pages_follow_each_other_and_make_each_payload_once() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        setup.push(0..40, 1).await;
        let (mut seen, mut after) = (Vec::new(), 0);
        while let Some(last) = {
            let page = setup.page(after, 17, Duration::ZERO).await.unwrap();
            seen.extend(numbers(&page));
            page.last().map(|item| item.event.id)
        } {
            after = last;
        }
        assert_eq!(seen, (0..40).collect::<Vec<_>>());
        let calls = setup.peers.calls();
        assert_eq!(setup.page(0, 100, Duration::ZERO).await.unwrap().len(), 40);
        assert_eq!(setup.peers.calls(), calls, "the payloads are stored");
        assert_eq!(setup.feed.next_page(RepositoryId(1), 0, 100, None, Instant::now()).await.unwrap().len(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_reader_waits_for_the_next_event() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        let started = Instant::now();
        assert_eq!(setup.page(0, 1, Duration::from_millis(50)).await.unwrap().len(), 0);
        assert!(started.elapsed() >= Duration::from_millis(50));
        let (page, ()) = tokio::join!(setup.page(0, 10, Duration::from_secs(60)), setup.push(3..4, 1));
        assert_eq!(numbers(&page.unwrap()), [3]);
        assert!(started.elapsed() < Duration::from_secs(30));
    })
    .await;
}

#[tokio::test]
async fn a_page_ends_before_an_event_whose_payload_cannot_be_made_now() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        setup.push(0..2, 1).await;
        assert_eq!(setup.page(0, 10, Duration::ZERO).await.unwrap().len(), 2);
        setup.push(2..3, 1).await;
        setup.peers.fail_git(REPOSITORY.0, Some(Code::Unavailable));
        let page = setup.page(0, 10, Duration::ZERO).await.unwrap();
        assert_eq!(numbers(&page), [0, 1]);
        let after = page.last().unwrap().event.id;
        assert!(matches!(setup.page(after, 10, Duration::ZERO).await, Err(FeedError::PayloadsUnavailable)));
        // What is gone for good is told as far as it is known.
        setup.peers.fail_git(REPOSITORY.0, Some(Code::NotFound));
        assert_eq!(numbers(&setup.page(after, 10, Duration::ZERO).await.unwrap()), [2]);
    })
    .await;
}

#[tokio::test]
async fn old_events_and_those_beyond_the_limit_leave_the_feed() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        setup.push(0..5, 1).await;
        setup.push(5..250, 3 * DAY_US).await;
        let settings = FeedArgs { feed_days: 2, feed_events: 20, feed_bytes: 1 << 20, owner_bytes: 1 << 20 };
        let clock = Clock::fixed(3 * DAY_US);
        let store = EventStore::new(setup.db.clone());
        purge(&store, &setup.feed.waiters, &clock, &settings).await.unwrap();
        let first = setup.page(0, 1, Duration::ZERO).await.unwrap();
        assert_eq!(numbers(&first), [5], "too few facts for a look at the length");
        setup.feed.waiters.notify(&[REPOSITORY; 100]);
        purge(&store, &setup.feed.waiters, &clock, &settings).await.unwrap();
        let rest = setup.page(0, 100, Duration::ZERO).await.unwrap();
        assert_eq!(numbers(&rest), (230..250).collect::<Vec<_>>());
        let (kept,): (i64,) = setup.db.one("SELECT COUNT(*) FROM events WHERE id > $1", &args![0_i64]).await.unwrap();
        assert_eq!(kept, 20, "the others take no room");
    })
    .await;
}

#[tokio::test]
async fn a_long_payload_of_an_event_that_no_hook_gets_is_not_stored() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        // Twenty commits with long messages, of which the payload has 16 KiB each.
        for number in 0..20_i64 {
            setup.peers.set_commit_count(&number.to_string(), 20);
            setup.peers.set_message_bytes(&number.to_string(), 16 * 1024);
        }
        setup.push(0..20, 1).await;
        for _ in 0..2 {
            let (mut seen, mut after) = (Vec::new(), 0);
            while let Some(last) = {
                let page = setup.page(after, 100, Duration::ZERO).await.unwrap();
                assert!(page.iter().all(|item| item.payload.len() > 300_000));
                seen.extend(numbers(&page));
                page.last().map(|item| item.event.id)
            } {
                after = last;
            }
            assert_eq!(seen, (0..20).collect::<Vec<_>>());
        }
        let stored = "SELECT CAST(COALESCE(SUM(OCTET_LENGTH(payload)), 0) AS BIGINT) FROM events";
        assert_eq!(setup.db.one::<(i64,)>(stored, &[]).await.unwrap(), (0,));
    })
    .await;
}
