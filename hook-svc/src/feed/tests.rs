//! Tests of feeds with fake repo-svc and git-svc.

use ferrite_api_types::links::Links;
use ferrite_core::timestamp;
use ferrite_db::Db;
use ferrite_db::args;
use ferrite_events::part_uuid;
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::{
    CommentAction, CommentChanged, Event, IssueAction, IssueUpdated, PullReviewed, RefUpdate, RefsUpdated,
    ReleasePublished, RepositoryForked,
};
use ferrite_proto::grant::{Grant, GrantUser, Verifier};
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::operation::LIST_EVENTS;
use ferrite_proto::{issue, repo};
use ferrite_rpc::testing::public_key_pem;
use tonic::Code;

use std::sync::Arc;

use super::purge::purge;
use super::*;
use crate::store::events::{self, NewEvent, Source};
use crate::testing::{FakePeers, on_each_schema, repository};
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
        let store = EventTable::new(db.clone());
        let upstream = Upstream::new(peers.channel.clone(), peers.channel.clone().into());
        let renderer = Renderer::new(store.clone(), upstream, Links::new("http://h", "h:22"));
        let verifier = Arc::new(Verifier::from_pem(public_key_pem().as_bytes()).unwrap());
        let authorizer = Authorizer::new(peers.channel.clone(), verifier);
        let feed = Feed::new(store, renderer, authorizer, FeedWaiters::default(), peers.life.clone());
        Self { db, peers, feed }
    }

    async fn tell(&self, source: Source, name: &'static str, fact: Fact) {
        let (count,): (i64,) = self.db.one("SELECT COUNT(*) FROM events", &[]).await.unwrap();
        self.add(vec![new(10_000 + count, source, name, fact, 1)], 1).await;
    }

    async fn add(&self, new: Vec<NewEvent>, now_us: i64) {
        let mut tx = self.db.begin().await.unwrap();
        events::lock_repository(&mut tx, REPOSITORY).await.unwrap();
        events::insert(&mut tx, &new, now_us).await.unwrap();
        tx.commit().await.unwrap();
        self.feed.waiters.notify(&[REPOSITORY]);
    }

    /// Adds pushes to these numbers as new ids, received at `now_us`.
    async fn push(&self, numbers: std::ops::Range<i64>, now_us: i64) {
        self.add(numbers.map(|number| pushed(number, now_us)).collect(), now_us).await;
    }

    /// Returns a page for a reader whose grant permits reading issues.
    async fn page(&self, after: i64, limit: usize, wait: Duration) -> Result<Vec<FeedItem>, FeedError> {
        let page = self.feed.next_page(&mut reader(REPOSITORY), after, limit, Instant::now() + wait).await?;
        Ok(page.items)
    }
}

fn reader(repository: RepositoryId) -> FeedReader {
    let user = Some(GrantUser { id: 7, token_id: 70, ..GrantUser::default() });
    let operation = LIST_EVENTS.to_owned();
    let grant = Grant { user, repository: repository.0, operation, issues_enabled: true, ..Grant::default() };
    FeedReader::new(&grant).unwrap()
}

fn new(number: i64, source: Source, name: &'static str, fact: Fact, now_us: i64) -> NewEvent {
    NewEvent {
        uuid: part_uuid("test", number),
        repository: REPOSITORY,
        source,
        user: UserId(7),
        name,
        fact: Event { fact: Some(fact), ..Event::default() },
        payload: None,
        is_dispatched: true,
        is_in_feed: true,
        happened_us: now_us,
    }
}

/// Returns a push with a number as its new id.
fn pushed(number: i64, now_us: i64) -> NewEvent {
    let new_id = number.to_string();
    let update = RefUpdate { name: b"refs/heads/main".to_vec(), old_id: "1".to_owned(), new_id };
    let fact = Fact::RefsUpdated(RefsUpdated { updates: vec![update], user_id: 7, ..Default::default() });
    new(number, Source::Git, "push", fact, now_us)
}

/// Returns the new ids of the pushes.
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
        assert_eq!(setup.peers.readable(|_| {}).len(), 3, "one question for each page with events");
        assert_eq!(setup.page(0, 100, Duration::ZERO).await.unwrap().len(), 40);
        assert_eq!(setup.peers.calls(), calls, "the payloads are stored");
        let other = setup.feed.next_page(&mut reader(RepositoryId(1)), 0, 100, Instant::now()).await.unwrap();
        assert_eq!((other.items.len(), other.cursor), (0, 0));
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
        // Handled like `UNAVAILABLE`, which the channel would retry first.
        setup.peers.fail_git(REPOSITORY.0, Some(Code::ResourceExhausted));
        let page = setup.page(0, 10, Duration::ZERO).await.unwrap();
        assert_eq!(numbers(&page), [0, 1]);
        let after = page.last().unwrap().event.id;
        assert!(matches!(setup.page(after, 10, Duration::ZERO).await, Err(FeedError::PayloadsUnavailable)));
        // Data that is gone for good is omitted from the payload.
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
        let store = EventTable::new(setup.db.clone());
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
        // Twenty commits with long messages. The payload has 16 KiB of each.
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

fn forked(id: i64) -> Fact {
    let parent = Some(Box::new(repository(REPOSITORY.0, None)));
    let fork = repo::Repository { parent, is_private: true, ..repository(id, None) };
    Fact::RepositoryForked(RepositoryForked { fork: Some(fork), user_id: 7 })
}

fn published(id: i64, notes: &str) -> Fact {
    let (create_time, body) = (Some(timestamp(1)), notes.to_owned());
    let release = repo::Release { id, body, create_time, ..repo::Release::default() };
    Fact::ReleasePublished(ReleasePublished { release: Some(release), user_id: 7 })
}

fn issue() -> Option<issue::Issue> {
    let (time, state) = (Some(timestamp(1)), issue::IssueState::Open.into());
    Some(issue::Issue { id: 1, number: 1, state, create_time: time, update_time: time, ..Default::default() })
}

fn edited(old_body: &str) -> Fact {
    let (action, old_body) = (IssueAction::Edited.into(), Some(old_body.to_owned()));
    Fact::IssueUpdated(IssueUpdated { action, issue: issue(), user_id: 7, old_body, ..Default::default() })
}

fn commented() -> Fact {
    let time = Some(timestamp(1));
    let comment = Some(issue::Comment { id: 2, create_time: time, update_time: time, ..Default::default() });
    let action = CommentAction::Created.into();
    Fact::CommentChanged(CommentChanged { action, issue: issue(), comment, user_id: 7, old_body: None })
}

fn names(items: &[FeedItem]) -> Vec<&str> {
    items.iter().map(|item| item.event.name.as_str()).collect()
}

#[tokio::test]
async fn a_reader_gets_what_it_may_read_when_it_is_sent() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        setup.tell(Source::Issue, "issues", edited("BEFORE")).await;
        setup.tell(Source::Issue, "issue_comment", commented()).await;
        setup.tell(Source::Repo, "fork", forked(50)).await;
        setup.tell(Source::Repo, "release", published(60, "NOTES")).await;
        setup.push(0..1, 1).await;
        let page = async || setup.page(0, 10, Duration::ZERO).await.unwrap();
        assert_eq!(names(&page().await), ["push"]);
        let asked = setup.peers.readable(|_| {});
        let asked: Vec<_> = asked.iter().map(|asked| (&asked.repository_ids[..], &asked.release_ids[..])).collect();
        assert_eq!(asked, [(&[50][..], &[60][..])], "one question for the page");

        setup.peers.readable(|readable| readable.issues = true);
        let shown = page().await;
        assert_eq!(names(&shown), ["issues", "issue_comment", "push"]);
        assert!(!shown[0].payload.contains("BEFORE") && shown[0].payload.ends_with("\"redacted\":true}"));
        setup.peers.readable(|readable| readable.repositories = vec![50]);
        assert_eq!(names(&page().await), ["issues", "issue_comment", "fork", "push"]);
        setup.peers.readable(|readable| readable.releases = vec![(60, "NOTES")]);
        let whole = page().await;
        assert_eq!(names(&whole), ["issues", "issue_comment", "fork", "release", "push"]);
        assert!(whole[3].payload.contains("NOTES"));
        setup.peers.readable(|readable| readable.releases = vec![(60, "others")]);
        let changed = page().await;
        assert!(!changed[3].payload.contains("NOTES") && changed[3].payload.ends_with("\"redacted\":true}"));
        let ids = |items: &[FeedItem]| items.iter().map(|item| item.event.id).collect::<Vec<_>>();
        assert_eq!(ids(&changed), ids(&whole));

        setup.peers.readable(|readable| readable.nothing = true);
        let refused = setup.page(0, 10, Duration::ZERO).await.unwrap_err();
        assert!(matches!(refused, FeedError::Access(AuthError::RepositoryNotFound)), "{refused:?}");
    })
    .await;
}

#[tokio::test]
async fn pull_requests_and_issues_are_read_by_rights_of_their_own() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        let pull = || {
            let ends = issue::PullRequest { head_repository_id: 50, ..Default::default() };
            issue().map(|issue| issue::Issue { pull_request: Some(ends), ..issue })
        };
        setup.peers.add_repository(50, None);
        let (action, old_body) = (IssueAction::Edited.into(), Some("BEFORE".to_owned()));
        let edit = IssueUpdated { action, issue: pull(), user_id: 7, old_body, ..Default::default() };
        setup.tell(Source::Issue, "issues", edited("old")).await;
        setup.tell(Source::Issue, "pull_request", Fact::IssueUpdated(edit)).await;
        setup.tell(Source::Issue, "issue_comment", commented()).await;
        let Fact::CommentChanged(comment) = commented() else { panic!("another fact") };
        let on_pull = Fact::CommentChanged(CommentChanged { issue: pull(), ..comment });
        setup.tell(Source::Issue, "issue_comment", on_pull).await;
        let review = issue::Review { user_id: 7, state: issue::ReviewState::Approved.into(), ..Default::default() };
        let reviewed = PullReviewed { pull: pull(), review: Some(review), is_deleted: false };
        setup.tell(Source::Issue, "pull_request_approved", Fact::PullReviewed(reviewed)).await;
        let page = async |issues, pulls| {
            setup.peers.readable(|readable| (readable.issues, readable.pulls) = (issues, pulls));
            let page = setup.page(0, 10, Duration::ZERO).await.unwrap();
            page.into_iter().map(|item| (item.event.is_of_pull(), item.payload)).collect::<Vec<_>>()
        };
        let are_of_pulls = |page: &[(bool, String)]| page.iter().map(|(is_pull, _)| *is_pull).collect::<Vec<_>>();
        assert_eq!(are_of_pulls(&page(true, false).await), [false, false]);
        let pulls = page(false, true).await;
        assert_eq!(are_of_pulls(&pulls), [true, true, true]);
        assert!(!pulls[0].1.contains("BEFORE") && pulls[1].1.contains("\"is_pull\":true"), "{pulls:?}");
        assert_eq!(are_of_pulls(&page(true, true).await), [false, true, false, true, true]);
        assert_eq!(page(false, false).await, []);

        // The fork was open when the payload was made.
        for place in [0, 2] {
            assert!(pulls[place].1.contains("\"repo_id\":50,\"repo\":null"), "{pulls:?}");
        }
        setup.peers.readable(|readable| readable.repositories = vec![50]);
        let shown = page(false, true).await;
        for place in [0, 2] {
            assert!(shown[place].1.contains("\"repo_id\":50,\"repo\":{\"id\":50,"), "{shown:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_reader_who_loses_the_access_in_its_wait_gets_no_event() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        setup.peers.readable(|readable| readable.issues = true);
        let (page, ()) = tokio::join!(setup.page(0, 10, Duration::from_secs(60)), async {
            setup.peers.readable(|readable| readable.nothing = true);
            setup.push(3..4, 1).await;
        });
        assert!(matches!(page.unwrap_err(), FeedError::Access(AuthError::RepositoryNotFound)));
        // Hidden events do not end a wait.
        setup.peers.readable(|readable| (readable.nothing, readable.issues) = (false, false));
        let (page, ()) = tokio::join!(setup.page(1, 10, Duration::from_secs(60)), async {
            setup.tell(Source::Issue, "issues", edited("old")).await;
            setup.tell(Source::Repo, "fork", forked(50)).await;
            setup.push(4..5, 1).await;
        });
        assert_eq!(numbers(&page.unwrap()), [4]);
    })
    .await;
}

#[tokio::test]
async fn many_hidden_events_end_a_call_behind_them() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        let all: Vec<_> = (0..1500).map(|number| new(number, Source::Repo, "fork", forked(50), 1)).collect();
        setup.add(all, 1).await;
        setup.push(2000..2001, 1).await;
        let (mut after, mut calls, mut questions) = (0, 0, 0);
        loop {
            let page = setup.feed.next_page(&mut reader(REPOSITORY), after, 1, Instant::now()).await.unwrap();
            assert!(page.cursor > after);
            (after, calls) = (page.cursor, calls + 1);
            questions += setup.peers.readable(|_| {}).len();
            if !page.items.is_empty() {
                assert_eq!(numbers(&page.items), [2000]);
                break;
            }
        }
        assert!(calls == 2 && questions <= 20, "{calls} calls, {questions} questions");
    })
    .await;
}

#[tokio::test]
async fn a_reader_that_waits_looks_at_hidden_events_once() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        let all: Vec<_> = (0..250).map(|number| new(number, Source::Repo, "fork", forked(50), 1)).collect();
        setup.add(all, 1).await;
        let ids: Vec<(i64,)> = setup.db.all("SELECT id FROM events ORDER BY id", &[]).await.unwrap();
        let mut reader = reader(REPOSITORY);
        let mut look = async |after| {
            let page = setup.feed.next_page(&mut reader, after, MAX_PAGE_EVENTS, Instant::now()).await.unwrap();
            assert!(page.items.is_empty());
            (page.cursor, page.looked_at, setup.peers.readable(|_| {}).len())
        };
        let (second, last) = (ids[199].0, ids[249].0);
        assert_eq!(look(0).await, (second, last, 3), "the cursor skips whole pages only");
        assert_eq!(look(second).await, (second, last, 1));
        assert_eq!(look(last).await, (last, last, 0));
        // By now the reader may not read issues.
        setup.tell(Source::Issue, "issues", edited("old")).await;
        let newest = setup.feed.store.newest(REPOSITORY).await.unwrap();
        assert_eq!(look(last).await, (last, newest, 0));
        assert_eq!(look(newest).await, (newest, newest, 0));
        setup.push(2000..2001, 1).await;
        let page = setup.feed.next_page(&mut reader, newest, 1, Instant::now()).await.unwrap();
        assert_eq!(numbers(&page.items), [2000]);
    })
    .await;
}

#[tokio::test]
async fn a_reader_of_before_a_restored_backup_gets_what_comes_after_it() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        let store = &setup.feed.store;
        store.advance_ids(1_000).await.unwrap();
        setup.push(0..3, 1).await;
        let backup = store.newest(REPOSITORY).await.unwrap();
        assert_eq!(backup, 1_003);
        setup.push(3..6, 1).await;
        let cursor = store.newest(REPOSITORY).await.unwrap();

        // The backup is restored, and a process starts.
        setup.db.execute("DELETE FROM events WHERE id > $1", &args![backup]).await.unwrap();
        let set_last = setup.db.pick(
            "SELECT setval(CAST(pg_get_serial_sequence('events', 'id') AS regclass), $1)",
            "UPDATE sqlite_sequence SET seq = $1 WHERE name = 'events'",
        );
        setup.db.execute(set_last, &args![backup]).await.unwrap();
        store.advance_ids(2_000).await.unwrap();
        setup.push(6..8, 1).await;
        assert_eq!(numbers(&setup.page(cursor, 10, Duration::ZERO).await.unwrap()), [6, 7]);

        // A slow clock does not move ids back.
        store.advance_ids(1).await.unwrap();
        setup.push(8..9, 1).await;
        assert_eq!(numbers(&setup.page(cursor, 10, Duration::ZERO).await.unwrap()), [6, 7, 8]);
        assert_eq!(store.newest(REPOSITORY).await.unwrap(), 2_003);
    })
    .await;
}

#[tokio::test]
async fn the_user_with_most_events_in_a_feed_loses_them_first() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        let add = async |user, numbers: std::ops::Range<i64>| {
            let of_user = |number| NewEvent { user: UserId(user), ..pushed(number, 1) };
            setup.add(numbers.map(of_user).collect(), 1).await;
        };
        let left_beyond = async |count| {
            while setup.feed.store.leave_feed_beyond(REPOSITORY, count).await.unwrap() {}
            numbers(&setup.page(0, 100, Duration::ZERO).await.unwrap())
        };
        add(7, 0..4).await;
        add(8, 10..460).await;
        add(9, 500..503).await;
        let expected: Vec<i64> = (0..4).chain(440..460).chain(500..503).collect();
        assert_eq!(left_beyond(27).await, expected);
        assert_eq!(left_beyond(27).await, expected, "there are not too many");
        // Once others have as many events, each user loses the oldest, starting with the user whose
        // oldest event is the oldest of all.
        assert_eq!(left_beyond(8).await, [2, 3, 457, 458, 459, 500, 501, 502]);
        assert_eq!(left_beyond(1).await, [502]);
    })
    .await;
}
