//! Tests of queue and scanner with fake git-svc, repo-svc and store.

mod issues;
mod peers;

use std::time::Duration;

use ferrite_core::Clock;
use ferrite_core::testing::eventually;
use ferrite_db::Db;
use ferrite_events::{event, first_seen};
use ferrite_markdown::commit::Action;
use ferrite_proto::Permission;
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::{IssueReach, RefUpdate, RefsUpdated};
use ferrite_proto::id::RepositoryId;
use ferrite_proto::repo::repository_ref::By;
use ferrite_proto::repo::resolve_issue_access_request::Account;
use ferrite_rpc::grpc::StoreChannel;

use self::peers::{Applied, Failure, GONE, Peers, Writer, commit_id};
use super::scanner::MAX_STEP_REFERENCES;
use super::targets::{MAX_SCANNED_REFERENCES, MAX_TARGET_REPOSITORIES};
use super::{CommitScanner, ScanQueue};
use crate::model::CommitAction;
use crate::testing::on_each_schema;
use crate::writer::ApplyReferences;

const REPOSITORY: i64 = 42;
const USER: i64 = 7;
const ZEROS: &str = "0000000000000000000000000000000000000000";
const START_US: i64 = 1_000_000_000;

/// The clock stands still.
struct Setup {
    queue: ScanQueue,
    peers: Peers,
    writer: Writer,
    clock: Clock,
    db: Db,
}

impl Setup {
    /// Pushes go to the repository `ada/site`, where the pusher may write.
    async fn new(db: Db) -> Self {
        let peers = Peers::start().await;
        peers.add_repository("ada", "site", REPOSITORY, Permission::Write);
        let (queue, clock) = (ScanQueue::new(db.clone()), Clock::fixed(START_US));
        Self { queue, peers, writer: Writer::default(), clock, db }
    }

    fn start_scanner(&self) {
        self.start_scanner_of(self.writer.clone());
    }

    fn start_scanner_of(&self, writer: impl ApplyReferences) {
        let (git, repo) = (self.peers.channel.clone(), self.peers.channel.clone());
        CommitScanner::new(self.queue.clone(), git.into(), repo, writer, self.clock.clone()).start(&self.peers.life);
    }

    async fn record(&self, repository: i64, updated: &RefsUpdated) {
        let mut tx = self.db.begin().await.unwrap();
        let now_us = self.clock.now_us();
        self.queue.record(&mut tx, RepositoryId(repository), updated, now_us).await.unwrap();
        tx.commit().await.unwrap();
        self.queue.wake();
    }

    async fn push(&self, repository: i64, new_id: &str, messages: &[&str]) {
        self.peers.add_push(repository, new_id, messages);
        self.record(repository, &updated(new_id, IssueReach::All)).await;
    }

    async fn waiting(&self) -> i64 {
        self.db.one::<(i64,)>("SELECT COUNT(*) FROM commit_scans", &[]).await.unwrap().0
    }

    async fn until_scanned(&self) {
        eventually("all scans have ended", || async { self.waiting().await == 0 }).await;
    }

    /// Waits until a scan has failed this often.
    async fn until_failed(&self, attempts: i64) {
        let failed = "SELECT COUNT(*) FROM commit_scans WHERE attempts = $1 AND claimed_until_us = 0";
        eventually("the scan has failed", || async {
            self.db.one::<(i64,)>(failed, &ferrite_db::args![attempts]).await.unwrap().0 > 0
        })
        .await;
    }

    /// Advances the clock and wakes the scanner.
    fn advance(&self, by: Duration) {
        self.clock.advance(by);
        self.queue.wake();
    }
}

fn update(name: &str, new_id: &str) -> RefUpdate {
    RefUpdate { name: name.as_bytes().to_vec(), old_id: ZEROS.to_owned(), new_id: new_id.to_owned() }
}

/// Returns an update of the default branch by [`USER`].
fn updated(new_id: &str, reach: IssueReach) -> RefsUpdated {
    RefsUpdated {
        updates: vec![update("refs/heads/side", "other"), update("refs/heads/main", new_id)],
        user_id: USER,
        default_branch: b"main".to_vec(),
        issue_reach: reach.into(),
        ..RefsUpdated::default()
    }
}

fn action(new_id: &str, place: usize, number: i64, action: Action) -> CommitAction {
    CommitAction { source: RepositoryId(REPOSITORY), commit_id: commit_id(new_id, place), number, action }
}

fn applied(target: i64, permission: Permission, references: Vec<CommitAction>) -> Applied {
    Applied { target, actor: USER, permission, references }
}

#[tokio::test]
async fn updates_of_the_default_branch_by_users_who_reach_issues_are_recorded() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        let all = updated("a", IssueReach::All);
        let deleted = RefsUpdated { updates: vec![update("refs/heads/main", ZEROS)], ..all.clone() };
        let elsewhere =
            RefsUpdated { updates: vec![update("refs/heads/mai", "a"), update("main", "a")], ..all.clone() };
        for skipped in [
            updated("a", IssueReach::None),
            updated("a", IssueReach::Unspecified),
            RefsUpdated { issue_reach: 99, ..all.clone() },
            RefsUpdated { user_id: 0, ..all.clone() },
            RefsUpdated { default_branch: b"trunk".to_vec(), ..all.clone() },
            RefsUpdated { default_branch: Vec::new(), ..all.clone() },
            RefsUpdated { updates: Vec::new(), ..all.clone() },
            deleted,
            elsewhere,
        ] {
            setup.record(REPOSITORY, &skipped).await;
            assert_eq!(setup.waiting().await, 0, "{skipped:?}");
        }
        setup.record(REPOSITORY, &updated("b", IssueReach::Repository)).await;
        setup.record(REPOSITORY, &all).await;
        let rows: Vec<(i64, String, String, i64, i64)> = setup
            .db
            .all("SELECT repository_id, old_id, new_id, user_id, issue_reach FROM commit_scans ORDER BY id", &[])
            .await
            .unwrap();
        let row = |new_id: &str, reach| (REPOSITORY, ZEROS.to_owned(), new_id.to_owned(), USER, reach);
        assert_eq!(rows, [row("b", 2), row("a", 3)]);
    })
    .await;
}

#[tokio::test]
async fn an_event_that_is_delivered_twice_is_scanned_once() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        let fact = updated("a", IssueReach::All);
        let event = event(RepositoryId(REPOSITORY), START_US, Fact::RefsUpdated(fact.clone()));
        for _ in 0..2 {
            let mut tx = setup.db.begin().await.unwrap();
            if first_seen(&mut tx, &event, START_US).await.unwrap() {
                setup.queue.record(&mut tx, RepositoryId(REPOSITORY), &fact, START_US).await.unwrap();
            }
            tx.commit().await.unwrap();
        }
        assert_eq!(setup.waiting().await, 1);
    })
    .await;
}

#[tokio::test]
async fn with_several_stores_commits_are_read_from_the_one_that_has_the_repository() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        let git = StoreChannel::new(setup.peers.stores.clone(), None);
        let (queue, repo) = (setup.queue.clone(), setup.peers.channel.clone());
        CommitScanner::new(queue, git, repo, setup.writer.clone(), setup.clock.clone()).start(&setup.peers.life);
        setup.push(GONE, "a", &["fixes #9"]).await;
        setup.push(REPOSITORY, "a", &["fixes #1"]).await;
        setup.until_scanned().await;
        let [listed] = &setup.peers.listed()[..] else { panic!("not one call") };
        assert_eq!(listed.repository_id, REPOSITORY);
        let expected = applied(REPOSITORY, Permission::Write, vec![action("a", 0, 1, Action::Close)]);
        assert_eq!(setup.writer.applied(), [expected]);
    })
    .await;
}

#[tokio::test]
async fn references_are_applied_by_repository_with_the_pushers_level() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        setup.peers.add_repository("ada", "lib", 43, Permission::Read);
        setup.start_scanner();
        let messages = [
            "Fixes #1, see ADA/lib#5",
            "no reference",
            "closes: ada/lib#5, reopens #1, fixes bob/hidden#1",
            "see ada/site#2, fixes #2",
            "fixes #3, see Ada/Site#3",
        ];
        setup.push(REPOSITORY, "a", &messages).await;
        setup.until_scanned().await;
        let own = vec![
            action("a", 0, 1, Action::Close),
            action("a", 2, 1, Action::Reopen),
            action("a", 3, 2, Action::Close),
            action("a", 4, 3, Action::Close),
        ];
        let lib = vec![action("a", 0, 5, Action::Mention), action("a", 2, 5, Action::Close)];
        let expected = [applied(REPOSITORY, Permission::Write, own), applied(43, Permission::Read, lib)];
        assert_eq!(setup.writer.applied(), expected);

        let [listed] = &setup.peers.listed()[..] else { panic!("not one call") };
        assert_eq!((listed.repository_id, listed.old_id.as_str(), listed.new_id.as_str()), (REPOSITORY, ZEROS, "a"));
        assert_eq!(listed.limit, 1_000);
        let [resolved] = &setup.peers.resolved()[..] else { panic!("not one call") };
        assert_eq!(resolved.account, Some(Account::UserId(USER)));
        let asked: Vec<_> = resolved
            .repositories
            .iter()
            .map(|repository| match repository.by.as_ref().unwrap() {
                By::Id(id) => id.to_string(),
                By::Name(name) => format!("{}/{}", name.owner, name.name),
            })
            .collect();
        assert_eq!(asked, ["42", "ada/lib", "bob/hidden", "ada/site"]);
    })
    .await;
}

#[tokio::test]
async fn commits_without_references_cost_one_call() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        setup.start_scanner();
        setup.push(REPOSITORY, "a", &["nothing", "x#1", ""]).await;
        setup.push(REPOSITORY + 1, "b", &[]).await;
        setup.until_scanned().await;
        assert_eq!((setup.peers.listed().len(), setup.peers.resolved().len()), (2, 0));
        assert!(setup.writer.applied().is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_limited_credential_reaches_its_own_repository_by_either_name() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        setup.peers.add_repository("ada", "lib", 43, Permission::Owner);
        setup.start_scanner();
        setup.peers.add_push(REPOSITORY, "a", &["fixes ada/lib#1, fixes ADA/site#2"]);
        setup.record(REPOSITORY, &updated("a", IssueReach::Repository)).await;
        setup.until_scanned().await;
        let own = vec![action("a", 0, 2, Action::Close)];
        assert_eq!(setup.writer.applied(), [applied(REPOSITORY, Permission::Write, own)]);
        assert_eq!(setup.peers.resolved()[0].repositories.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_scan_of_what_is_gone_is_dropped() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        setup.start_scanner();
        setup.peers.fail_git(REPOSITORY, Some(Failure::NotFound("COMMIT_NOT_FOUND")));
        setup.push(REPOSITORY, "a", &["fixes #1"]).await;
        setup.until_scanned().await;
        setup.peers.fail_git(REPOSITORY, None);
        setup.peers.fail_repo(Some(Failure::NotFound("USER_NOT_FOUND")));
        setup.push(REPOSITORY, "b", &["fixes #1"]).await;
        setup.until_scanned().await;
        setup.peers.fail_repo(None);
        // No access: the tracker is disabled, or the user may not see the repository.
        setup.push(99, "c", &["fixes #1"]).await;
        setup.until_scanned().await;
        assert!(setup.writer.applied().is_empty());

        setup.writer.delete(43);
        setup.peers.add_repository("ada", "gone", 43, Permission::Write);
        setup.push(REPOSITORY, "d", &["fixes ada/gone#1 and fixes #1"]).await;
        setup.until_scanned().await;
        assert_eq!(setup.writer.applied().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_failed_scan_is_tried_again_and_delays_its_own_repository_only() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        setup.peers.add_repository("ada", "lib", 43, Permission::Write);
        setup.start_scanner();
        setup.peers.fail_git(REPOSITORY, Some(Failure::Internal));
        setup.push(REPOSITORY, "a", &["fixes #1"]).await;
        setup.push(REPOSITORY, "b", &["reopens #1"]).await;
        setup.until_failed(1).await;
        setup.push(43, "c", &["fixes #1"]).await;
        eventually("the other repository is scanned", || async { setup.waiting().await == 2 }).await;
        assert_eq!(setup.writer.applied()[0].target, 43);

        // The first delay is 100 ms, the second one 200 ms.
        setup.advance(Duration::from_millis(100));
        setup.until_failed(2).await;
        setup.advance(Duration::from_millis(100));
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(setup.peers.listed().iter().filter(|call| call.repository_id == REPOSITORY).count(), 2);
        setup.peers.fail_git(REPOSITORY, None);
        setup.peers.fail_repo(Some(Failure::Internal));
        setup.advance(Duration::from_millis(100));
        setup.until_failed(3).await;
        setup.peers.fail_repo(None);
        setup.writer.set_failing(REPOSITORY, true);
        setup.advance(Duration::from_secs(60));
        setup.until_failed(4).await;
        setup.writer.set_failing(REPOSITORY, false);
        setup.advance(Duration::from_secs(60));
        setup.until_scanned().await;
        let own = |new_id, effect| applied(REPOSITORY, Permission::Write, vec![action(new_id, 0, 1, effect)]);
        assert_eq!(setup.writer.applied()[1..], [own("a", Action::Close), own("b", Action::Reopen)]);
    })
    .await;
}

#[tokio::test]
async fn a_scan_that_hangs_does_not_hold_others_back() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        setup.peers.fail_git(9, Some(Failure::Hangs));
        setup.start_scanner();
        setup.push(9, "a", &["fixes #1"]).await;
        eventually("it hangs", || async { setup.peers.listed().len() == 1 }).await;
        setup.push(REPOSITORY, "b", &["fixes #1"]).await;
        eventually("the other one is scanned", || async { setup.writer.applied().len() == 1 }).await;

        // Stopping releases the running scan, so that another process can take it at once.
        setup.peers.life.stop();
        assert!(setup.peers.life.finished().await, "a scan delays the stop");
        let claimed = setup.queue.claim(setup.clock.now_us()).await.unwrap().unwrap();
        assert_eq!((claimed.repository, claimed.new_id.as_str()), (RepositoryId(9), "a"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_replicas_scan_each_update_once_and_in_order() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        setup.start_scanner();
        let other = ScanQueue::new(setup.db.clone());
        let (git, repo) = (setup.peers.channel.clone(), setup.peers.channel.clone());
        CommitScanner::new(other.clone(), git.into(), repo, setup.writer.clone(), setup.clock.clone())
            .start(&setup.peers.life);
        let repositories = [REPOSITORY, 50, 51];
        for repository in &repositories[1..] {
            setup.peers.add_repository("ada", &format!("r{repository}"), *repository, Permission::Write);
        }
        for number in 1..=12 {
            for repository in repositories {
                setup.push(repository, &format!("c{number}"), &[&format!("fixes #{number}")]).await;
                other.wake();
            }
        }
        setup.until_scanned().await;
        for repository in repositories {
            let numbers: Vec<_> = setup
                .writer
                .applied()
                .into_iter()
                .filter(|applied| applied.target == repository)
                .flat_map(|applied| applied.references.into_iter().map(|reference| reference.number))
                .collect();
            assert_eq!(numbers, (1..=12).collect::<Vec<_>>());
        }
    })
    .await;
}

#[tokio::test]
async fn a_claim_excludes_others_until_its_lease_ends_and_its_late_mark_has_no_effect() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        let queue = &setup.queue;
        let before = setup.db.statements();
        assert!(queue.claim(START_US).await.unwrap().is_none());
        assert_eq!(setup.db.statements() - before, 1, "an idle look is one read");
        setup.record(REPOSITORY, &updated("a", IssueReach::All)).await;
        setup.record(REPOSITORY, &updated("b", IssueReach::All)).await;
        let first = queue.claim(START_US).await.unwrap().unwrap();
        assert_eq!((first.new_id.as_str(), first.reach), ("a", IssueReach::All));
        assert!(queue.claim(START_US + 30_000_000).await.unwrap().is_none(), "the later one waits for the earlier one");
        let second = queue.claim(START_US + 30_000_001).await.unwrap().unwrap();
        assert_eq!(second.new_id, "a");
        assert!(!queue.extend(&first, START_US + 90_000_000).await.unwrap(), "another scan has taken over");
        queue.finish(&first).await.unwrap();
        queue.fail(&first, START_US).await.unwrap();
        assert!(queue.extend(&second, START_US + 40_000_000).await.unwrap());
        assert!(queue.claim(START_US + 70_000_000).await.unwrap().is_none(), "it is extended");
        assert_eq!(setup.waiting().await, 2);
        assert!(queue.claim(START_US + 30_000_002).await.unwrap().is_none());
        queue.finish(&second).await.unwrap();
        assert_eq!(queue.claim(START_US).await.unwrap().unwrap().new_id, "b");
    })
    .await;
}

#[tokio::test]
async fn replicas_that_claim_at_once_get_different_scans() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        for repository in 1..=4 {
            setup.record(repository, &updated("a", IssueReach::All)).await;
        }
        let claim = || setup.queue.claim(START_US);
        let claims = tokio::join!(claim(), claim(), claim(), claim());
        let claims = [claims.0, claims.1, claims.2, claims.3];
        let mut claimed: Vec<_> =
            claims.into_iter().map(|claim| claim.unwrap().map(|scan| scan.repository.0)).collect();
        claimed.sort_unstable();
        assert_eq!(claimed, [Some(1), Some(2), Some(3), Some(4)]);
    })
    .await;
}

#[tokio::test]
async fn repositories_and_references_of_one_scan_are_limited() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        for id in 100..200 {
            setup.peers.add_repository("ada", &format!("r{id}"), id, Permission::Write);
        }
        setup.start_scanner();
        let named: Vec<_> = (100..200).map(|id| format!("fixes ada/r{id}#1")).collect();
        let named: Vec<_> = named.iter().map(String::as_str).chain(["fixes #1"]).collect();
        setup.push(REPOSITORY, "a", &named).await;
        setup.until_scanned().await;
        assert_eq!(setup.peers.resolved()[0].repositories.len(), MAX_TARGET_REPOSITORIES);
        let targets: Vec<_> = setup.writer.applied().into_iter().map(|applied| applied.target).collect();
        assert_eq!(
            targets,
            (100..149).chain([REPOSITORY]).collect::<Vec<_>>(),
            "the own repository is always one of them"
        );

        let message = |commit: i64| (1..=100).map(|number| format!("#{} ", commit * 100 + number)).collect::<String>();
        let messages: Vec<_> = (0..30).map(message).collect();
        setup.push(REPOSITORY, "b", &messages.iter().map(String::as_str).collect::<Vec<_>>()).await;
        setup.until_scanned().await;
        let calls = &setup.writer.applied()[50..];
        assert!(calls.iter().all(|call| call.references.len() == MAX_STEP_REFERENCES));
        assert_eq!(calls.len() * MAX_STEP_REFERENCES, MAX_SCANNED_REFERENCES);
        let numbers = calls.iter().flat_map(|call| call.references.iter().map(|reference| reference.number));
        assert!(numbers.eq(1_001..=3_000), "those of the oldest commits are dropped");
    })
    .await;
}
