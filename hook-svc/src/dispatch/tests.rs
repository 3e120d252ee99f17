//! Tests of the dispatcher with fake repo-svc and git-svc.

mod hooks;

use ferrite_api_types::links::Links;
use ferrite_db::Db;
use ferrite_db::args;
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::{Event, RefUpdate, RefsUpdated};
use ferrite_proto::id::UserId;
use serde_json::Value;
use tonic::Code;

use super::*;
use crate::store::events::NewEvent;
use crate::testing::{FakePeers, on_each_schema, repository};
use crate::upstream::Upstream;

const REPOSITORY: i64 = 42;
const ORGANIZATION: i64 = 9;
const START_US: i64 = 1_000_000_000;
const ZEROS: &str = "0000000000000000000000000000000000000000";

struct Setup {
    db: Db,
    peers: FakePeers,
    clock: Clock,
}

impl Setup {
    async fn new(db: Db) -> Self {
        let peers = FakePeers::start().await;
        peers.add_repository(REPOSITORY, None);
        Self { db, peers, clock: Clock::fixed(START_US) }
    }

    fn renderer(&self) -> Renderer {
        let upstream = Upstream::new(self.peers.channel.clone(), self.peers.channel.clone().into());
        Renderer::new(EventTable::new(self.db.clone()), upstream, Links::new("http://h", "h:22"))
    }

    fn dispatcher(&self) -> Dispatcher {
        Dispatcher::new(EventTable::new(self.db.clone()), self.renderer(), self.clock.clone(), || {})
    }

    /// Runs one pass, then advances the clock so that failed events are due again.
    async fn pass(&self, backoff: &mut Backoff) -> Pass {
        let pass = self.dispatcher().pass(backoff).await.unwrap();
        self.clock.advance(Duration::from_secs(60));
        pass
    }

    async fn hook(&self, (owner_kind, owner_id): (i64, i64), events: &str, is_active: bool) -> i64 {
        let sql = "INSERT INTO hooks (owner_kind, owner_id, type, url, shown_url, content_type, events, is_active, created_us, \
             updated_us) VALUES ($1, $2, 'native', $3, 'http://a/', 'json', $4, $5, 1, 1) RETURNING id";
        let args = args![owner_kind, owner_id, b"sealed".to_vec(), events, is_active];
        let mut tx = self.db.begin().await.unwrap();
        let (id,): (i64,) = tx.one(sql, &args).await.unwrap();
        tx.commit().await.unwrap();
        id
    }

    /// Adds a branch update as an event `name`.
    async fn event(&self, repository: i64, name: &'static str, new_id: &str) {
        self.event_at(repository, name, new_id, START_US).await;
    }

    async fn event_at(&self, repository: i64, name: &'static str, new_id: &str, happened_us: i64) {
        let update =
            RefUpdate { name: b"refs/heads/main".to_vec(), old_id: ZEROS.to_owned(), new_id: new_id.to_owned() };
        let fact = Fact::RefsUpdated(RefsUpdated { updates: vec![update], user_id: 7, ..Default::default() });
        self.tell(repository, Source::Git, name, fact, happened_us).await;
    }

    async fn tell(&self, repository: i64, source: Source, name: &'static str, fact: Fact, happened_us: i64) {
        let (count,): (i64,) = self.db.one("SELECT COUNT(*) FROM events", &[]).await.unwrap();
        let event_id = format!("{repository}-{count}");
        let uuid = part_uuid(&event_id, 0);
        let repository = RepositoryId(repository);
        let new = NewEvent {
            uuid,
            repository,
            source,
            user: UserId(7),
            name,
            fact: Event { event_id, repository_id: repository.0, fact: Some(fact), ..Event::default() },
            payload: None,
            is_dispatched: false,
            is_in_feed: true,
            happened_us,
        };
        let mut tx = self.db.begin().await.unwrap();
        events::lock_repository(&mut tx, repository).await.unwrap();
        events::insert(&mut tx, &[new], START_US).await.unwrap();
        tx.commit().await.unwrap();
    }

    /// Returns the deliveries in queue order: hook, event name, and the id of the event's object.
    async fn deliveries(&self) -> Vec<(i64, String, String)> {
        let sql = "SELECT d.hook_id, e.name, COALESCE(e.payload, '{}') FROM deliveries d JOIN events e ON e.id = d.event_id \
             ORDER BY d.id";
        let rows: Vec<(i64, String, String)> = self.db.all(sql, &[]).await.unwrap();
        let shown = |(hook, name, payload): (i64, String, String)| {
            let payload: Value = serde_json::from_str(&payload).unwrap();
            (hook, name, payload["after"].as_str().unwrap_or_default().to_owned())
        };
        rows.into_iter().map(shown).collect()
    }

    async fn waiting(&self) -> i64 {
        let (count,): (i64,) = self.db.one("SELECT COUNT(*) FROM events WHERE NOT is_dispatched", &[]).await.unwrap();
        count
    }

    async fn payloads(&self) -> Vec<Value> {
        let rows: Vec<(Option<String>,)> = self.db.all("SELECT payload FROM events ORDER BY id", &[]).await.unwrap();
        rows.into_iter().map(|(payload,)| serde_json::from_str(&payload.unwrap()).unwrap()).collect()
    }
}

fn of_repository() -> (i64, i64) {
    (2, REPOSITORY)
}

#[tokio::test]
async fn each_hook_that_wants_an_event_gets_it_once_and_in_order() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        setup.peers.add_repository(REPOSITORY, Some(ORGANIZATION));
        let site = setup.hook((0, 0), "push", true).await;
        let organization = setup.hook((1, ORGANIZATION), "push,create", true).await;
        let own = setup.hook(of_repository(), "push", true).await;
        setup.hook(of_repository(), "issues", true).await;
        setup.hook(of_repository(), "push", false).await;
        setup.hook((1, ORGANIZATION + 1), "push", true).await;
        setup.hook((2, REPOSITORY + 1), "push", true).await;
        setup.event(REPOSITORY, "create", "1").await;
        setup.event(REPOSITORY, "push", "1").await;
        setup.event(REPOSITORY, "push", "2").await;
        // Two processes at once.
        let (one, other) = (setup.dispatcher(), setup.dispatcher());
        let (mut backoff, mut other_backoff) = (Backoff::default(), Backoff::default());
        let (first, second) = tokio::join!(one.pass(&mut backoff), other.pass(&mut other_backoff));
        assert_eq!(first.unwrap().dispatched + second.unwrap().dispatched, 3);
        let told = |hook, name: &str, after: &str| (hook, name.to_owned(), after.to_owned());
        let expected = [
            told(organization, "create", ""),
            told(own, "push", "1"),
            told(organization, "push", "1"),
            told(site, "push", "1"),
            told(own, "push", "2"),
            told(organization, "push", "2"),
            told(site, "push", "2"),
        ];
        assert_eq!(setup.deliveries().await, expected);
        assert_eq!(setup.waiting().await, 0);
        let queues: Vec<(i64, i64)> =
            setup.db.all("SELECT hook_id, waiting FROM lanes ORDER BY hook_id", &[]).await.unwrap();
        assert_eq!(queues, [(site, 2), (organization, 3), (own, 2)]);
        let payload = &setup.payloads().await[1];
        assert_eq!(
            (&payload["sender"]["username"], &payload["commits"][0]["author"]["username"]),
            (&"ada".into(), &"ada".into())
        );
    })
    .await;
}

#[tokio::test]
async fn a_repository_that_cannot_be_described_holds_up_itself_only_and_is_told_in_the_end() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        setup.peers.add_repository(REPOSITORY + 1, None);
        let site = setup.hook((0, 0), "push,create", true).await;
        setup.event(REPOSITORY, "push", "1").await;
        setup.event(REPOSITORY, "create", "1").await;
        setup.event(REPOSITORY + 1, "push", "2").await;
        setup.peers.fail_git(REPOSITORY, Some(Code::Internal));
        let mut backoff = Backoff::default();
        assert_eq!(setup.pass(&mut backoff).await.dispatched, 1);
        assert_eq!(setup.deliveries().await, [(site, "push".to_owned(), "2".to_owned())]);
        for _ in 0..MAX_LOOKUPS - 2 {
            assert_eq!(setup.pass(&mut backoff).await.dispatched, 0);
        }
        assert_eq!(setup.pass(&mut backoff).await.dispatched, 2);
        let push = &setup.payloads().await[0];
        assert_eq!((&push["commits"][0]["id"], &push["commits"][0]["truncated"]), (&"1".into(), &true.into()));
        let names: Vec<_> = setup.deliveries().await.into_iter().map(|(_, name, _)| name).collect();
        assert_eq!(names, ["push", "push", "create"]);
    })
    .await;
}

#[test]
fn an_unknown_repository_is_a_fault_if_its_event_does_not_come() {
    for attempts in 1..MAX_LOOKUPS {
        let is_last = attempts == MAX_LOOKUPS - 1;
        assert_eq!(is_ordinary(&StreamFailure::RepositoryUnknown, attempts), !is_last, "{attempts}");
        assert!(!is_ordinary(&StreamFailure::Git(Code::Internal), attempts), "{attempts}");
    }
}

#[tokio::test]
async fn events_wait_while_a_service_is_down() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        setup.hook((0, 0), "push", true).await;
        setup.event(REPOSITORY, "push", "1").await;
        let mut backoff = Backoff::default();
        // Handled like `UNAVAILABLE`, which the channel would retry first.
        setup.peers.fail_git(REPOSITORY, Some(Code::ResourceExhausted));
        for _ in 0..MAX_LOOKUPS + 2 {
            let pass = setup.pass(&mut backoff).await;
            assert!(pass.is_git_down && pass.dispatched == 0, "{pass:?}");
        }
        setup.peers.fail_git(REPOSITORY, None);
        setup.peers.fail_repo(Some(Code::Internal));
        for _ in 0..MAX_LOOKUPS + 2 {
            assert!(matches!(setup.dispatcher().pass(&mut backoff).await, Err(RenderError::Repo(_))));
        }
        assert_eq!((setup.waiting().await, setup.deliveries().await.len()), (1, 0));
        setup.peers.fail_repo(None);
        assert_eq!(setup.pass(&mut backoff).await.dispatched, 1);
        assert_eq!(setup.payloads().await[0]["commits"][0]["message"], "message of 1\n");
    })
    .await;
}

#[tokio::test]
async fn events_of_a_deleted_repository_show_it_as_it_was() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        let organization = setup.hook((1, ORGANIZATION), "push", true).await;
        setup.event(REPOSITORY, "push", "1").await;
        setup.peers.remove_repository(REPOSITORY);
        setup.peers.fail_git(REPOSITORY, Some(Code::NotFound));
        let mut backoff = Backoff::default();
        assert_eq!(setup.pass(&mut backoff).await.dispatched, 0, "its deletion was not told yet");
        let mut tx = setup.db.begin().await.unwrap();
        let snapshot = repository(REPOSITORY, Some(ORGANIZATION));
        events::keep_snapshot(&mut tx, RepositoryId(REPOSITORY), &snapshot).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(setup.pass(&mut backoff).await.dispatched, 1);
        assert_eq!(setup.deliveries().await, [(organization, "push".to_owned(), "1".to_owned())]);
        assert_eq!(setup.payloads().await[0]["repository"]["full_name"], "acme/r42");
    })
    .await;
}

#[tokio::test]
async fn a_batch_asks_each_service_once() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        setup.hook((0, 0), "push", true).await;
        for place in 0..40 {
            setup.event(REPOSITORY, "push", &place.to_string()).await;
        }
        setup.peers.set_commit_count("39", 70);
        let before = (setup.peers.calls(), setup.db.statements());
        assert_eq!(setup.pass(&mut Backoff::default()).await.dispatched, 40);
        assert_eq!(setup.peers.calls() - before.0, 3);
        // Two polls for events; the lock, the mark and the hooks; the payloads and their bytes; the
        // queue and the deliveries.
        assert_eq!(setup.db.statements() - before.1, 9);
        let last = setup.payloads().await.pop().unwrap();
        assert_eq!((last["commits"].as_array().unwrap().len(), &last["total_commits"]), (20, &70.into()));
    })
    .await;
}

#[tokio::test]
async fn events_wait_for_a_payload_without_the_text_that_was_taken_out_meanwhile() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        let own = setup.hook(of_repository(), "push", true).await;
        setup.event(REPOSITORY, "push", "1").await;
        setup.event(REPOSITORY, "push", "2").await;
        let dispatcher = setup.dispatcher();
        let events = dispatcher.store.undispatched(None, None, BATCH_EVENTS).await.unwrap();
        let rendering = dispatcher.renderer.render(&events, |_| false).await.unwrap();
        let first = events[0].id;
        setup.db.execute("UPDATE events SET revision = 1 WHERE id = $1", &args![first]).await.unwrap();
        let queued = dispatcher.queue_repository(RepositoryId(REPOSITORY), events, &rendering).await.unwrap();
        assert_eq!((queued, setup.waiting().await, setup.deliveries().await.len()), (0, 2, 0));
        assert_eq!(setup.pass(&mut Backoff::default()).await.dispatched, 2);
        let told = |after: &str| (own, "push".to_owned(), after.to_owned());
        assert_eq!(setup.deliveries().await, [told("1"), told("2")], "in their order");
        assert_eq!(setup.payloads().await[0]["redacted"], true);
    })
    .await;
}

#[tokio::test]
async fn a_long_payload_is_stored_for_the_hooks_that_get_it_and_counts() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        setup.hook(of_repository(), "push", true).await;
        setup.peers.add_repository(REPOSITORY + 1, None);
        for (repository, new_id) in [(REPOSITORY, "1"), (REPOSITORY + 1, "2")] {
            setup.peers.set_commit_count(new_id, 20);
            setup.peers.set_message_bytes(new_id, 16 * 1024);
            setup.event(repository, "push", new_id).await;
        }
        assert_eq!(setup.pass(&mut Backoff::default()).await.dispatched, 2);
        let lengths = "SELECT CAST(COALESCE(OCTET_LENGTH(payload), 0) AS BIGINT) FROM events ORDER BY id";
        let lengths: Vec<(i64,)> = setup.db.all(lengths, &[]).await.unwrap();
        assert!(lengths[0].0 > MAX_UNSENT_PAYLOAD_BYTES as i64 && lengths[1].0 == 0, "{lengths:?}");
        let sums = "SELECT r.kept_bytes, CAST((SELECT SUM(bytes) FROM events WHERE repository_id = $1) \
             + (SELECT SUM(bytes) FROM deliveries) AS BIGINT) FROM hook_repositories r WHERE r.repository_id = $1";
        let (kept, actual): (i64, i64) = setup.db.one(sums, &args![REPOSITORY]).await.unwrap();
        assert!(kept == actual && kept > lengths[0].0, "{kept} {actual}");
    })
    .await;
}

#[tokio::test]
async fn a_started_dispatcher_is_woken() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        setup.hook((0, 0), "push", true).await;
        let dispatcher = setup.dispatcher();
        dispatcher.start(&setup.peers.life);
        setup.event(REPOSITORY, "push", "1").await;
        dispatcher.wake();
        let until_dispatched = async {
            while setup.waiting().await > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), until_dispatched).await.expect("the event is dispatched");
    })
    .await;
}

#[tokio::test]
async fn a_test_is_a_push_of_the_newest_commit_or_a_ping() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        let (name, payload) = setup.renderer().test_payload(RepositoryId(REPOSITORY), 7).await.unwrap();
        let payload: Value = serde_json::from_str(&payload).unwrap();
        assert_eq!((name, &payload["repository"]["full_name"]), ("ping", &"ada/r42".into()));
        setup.peers.set_head(REPOSITORY, "2", "1");
        let (name, payload) = setup.renderer().test_payload(RepositoryId(REPOSITORY), 7).await.unwrap();
        let payload: Value = serde_json::from_str(&payload).unwrap();
        assert_eq!(
            (name, &payload["ref"], &payload["before"], &payload["after"]),
            ("push", &"refs/heads/main".into(), &"1".into(), &"2".into())
        );
        let (name, payload) = setup.renderer().site_test_payload(7).await.unwrap();
        let payload: Value = serde_json::from_str(&payload).unwrap();
        assert_eq!(
            (name, &payload["site"], &payload["sender"]["username"]),
            ("ping", &"http://h".into(), &"ada".into())
        );
        let unknown = setup.renderer().test_payload(RepositoryId(1), 7).await;
        assert!(matches!(unknown, Err(RenderError::RepositoryUnknown)));
    })
    .await;
}
