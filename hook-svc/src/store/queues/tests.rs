//! Tests the order, exclusive claims and completeness of deliveries.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferrite_core::Clock;
use ferrite_db::Db;
use ferrite_db::args;
use ferrite_proto::id::{HookId, RepositoryId};
use rand::Rng;
use uuid::Uuid;

use super::super::attempts::{self, Attempt};
use super::super::claims::{self, Claim, Head};
use super::super::deliveries::{self, Status};
use super::super::outcomes::{self, HookEffect, Outcome, Settled, Settlement};
use super::super::purge;
use super::{NewDelivery, PARKED_US, QueueKey, enqueue, enqueue_alone};
use crate::testing::on_each_schema;

const LEASE_US: i64 = 300_000;
const NOW_US: i64 = 1_000_000_000;

async fn add_hook(db: &Db) -> HookId {
    let sql = "INSERT INTO hooks (owner_kind, owner_id, type, url, shown_url, content_type, events, is_active, created_us, \
         updated_us) VALUES (2, 1, 'native', $1, '', 'json', 'push', TRUE, 0, 0) RETURNING id";
    let mut tx = db.begin().await.unwrap();
    let (id,): (i64,) = tx.one(sql, &args![b"x".to_vec()]).await.unwrap();
    tx.commit().await.unwrap();
    HookId(id)
}

async fn add_event(db: &Db) -> i64 {
    let sql = "INSERT INTO events (uuid, repository_id, source, name, fact, payload, is_dispatched, is_in_feed, created_us) \
         VALUES ($1, 1, 1, 'push', $2, '{}', TRUE, FALSE, 0) RETURNING id";
    let mut tx = db.begin().await.unwrap();
    let (id,): (i64,) = tx.one(sql, &args![Uuid::new_v4().to_string(), Vec::new()]).await.unwrap();
    tx.commit().await.unwrap();
    id
}

fn new(hook: HookId, event_id: i64, repository: i64, source: i64) -> NewDelivery {
    NewDelivery {
        uuid: Uuid::new_v4().to_string(),
        hook,
        event_id,
        repository: RepositoryId(repository),
        source,
        bytes: 0,
    }
}

async fn add(db: &Db, new: &[NewDelivery]) {
    let mut tx = db.begin().await.unwrap();
    enqueue(&mut tx, new, NOW_US).await.unwrap();
    tx.commit().await.unwrap();
}

fn attempt(head: &Head, now_us: i64) -> Attempt {
    Attempt {
        number: head.attempts + 1,
        started_us: now_us,
        duration_ms: 1,
        shown_url: "http://a/".to_owned(),
        request_headers: "[]".to_owned(),
        request_body: Some(b"{}".to_vec()),
        is_request_cut: false,
        response_status: Some(200),
        response_headers: Some("[]".to_owned()),
        response_body: Some(Vec::new()),
        is_response_cut: false,
        error: None,
    }
}

fn settlement(head: &Head, outcome: Outcome, now_us: i64) -> Settlement {
    let attempt = attempt(head, now_us);
    Settlement { outcome, effect: HookEffect::Unchanged, attempt, lease_until_us: None, now_us }
}

async fn claim_due(db: &Db, now_us: i64) -> Vec<(Claim, Head)> {
    let due = claims::due(db, now_us, &[]).await.unwrap();
    claims::claim(db, &due, now_us, now_us + LEASE_US).await.unwrap()
}

async fn claim_one(db: &Db, now_us: i64) -> (Claim, Head) {
    let mut claimed = claim_due(db, now_us).await;
    assert_eq!(claimed.len(), 1, "{claimed:?}");
    claimed.remove(0)
}

async fn settle(db: &Db, claimed: &(Claim, Head), outcome: Outcome, now_us: i64) -> Settled {
    outcomes::settle(db, &claimed.0, &claimed.1, &settlement(&claimed.1, outcome, now_us)).await.unwrap()
}

async fn queues(db: &Db) -> Vec<(i64, i64, i64)> {
    db.all("SELECT delivery_id, waiting, next_us FROM lanes ORDER BY hook_id, repository_id, source, delivery_id", &[])
        .await
        .unwrap()
}

async fn statuses(db: &Db) -> Vec<(i64, i64)> {
    db.all("SELECT status, attempts FROM deliveries ORDER BY id", &[]).await.unwrap()
}

/// Senders that watch each other: who holds which queue, and what each queue sent last.
#[derive(Default)]
struct Watch {
    holders: Mutex<HashMap<QueueKey, (usize, i64)>>,
    last_sent: Mutex<HashMap<QueueKey, i64>>,
    sends: AtomicUsize,
}

impl Watch {
    /// Records that a worker sends `head` under a claim from `now_us` to `until_us`. Returns false
    /// if the worker was held up until its lease ended: another may hold the queue by then.
    fn begin(&self, worker: usize, queue: QueueKey, head: &Head, now_us: i64, until_us: i64) -> bool {
        let mut holders = self.holders.lock().unwrap();
        if Clock::system().now_us() >= until_us {
            return false;
        }
        let before = holders.insert(queue, (worker, until_us));
        assert!(before.is_none_or(|(_, until_us)| until_us <= now_us), "two senders have queue {queue:?}");
        if queue.delivery_id == 0 {
            let last = self.last_sent.lock().unwrap().insert(queue, head.id);
            assert!(last.is_none_or(|last| last <= head.id), "{} was sent after {last:?} in {queue:?}", head.id);
        }
        self.sends.fetch_add(1, Ordering::Relaxed);
        true
    }

    fn end(&self, queue: QueueKey) {
        self.holders.lock().unwrap().remove(&queue);
    }
}

fn random_outcome(head: &Head, queue: QueueKey, now_us: i64) -> Outcome {
    let next_us = now_us + rand::rng().random_range(0..20_000);
    match rand::rng().random_range(0..10) {
        0..6 => Outcome::Succeeded,
        _ if head.failures >= 3 && queue.delivery_id == 0 => Outcome::StepAsideUntil(next_us),
        _ => Outcome::RetryAt(next_us),
    }
}

/// Sends what is due, with failures and crashes, until all `total` deliveries have succeeded.
async fn work(db: Db, worker: usize, watch: Arc<Watch>, done: Arc<AtomicUsize>, total: usize) {
    let clock = Clock::system();
    while done.load(Ordering::Relaxed) < total {
        let now_us = clock.now_us();
        let due = claims::due(&db, now_us, &[]).await.unwrap();
        let some: Vec<_> = due.into_iter().filter(|_| rand::random_bool(0.5)).collect();
        let until_us = now_us + LEASE_US;
        for (claim, mut head) in claims::claim(&db, &some, now_us, until_us).await.unwrap() {
            if !watch.begin(worker, claim.queue, &head, now_us, until_us) {
                continue;
            }
            loop {
                if rand::random_bool(0.05) {
                    // A crash: the claim stays until its lease ends.
                    break;
                }
                let outcome = random_outcome(&head, claim.queue, clock.now_us());
                let now_us = clock.now_us();
                let goes_on = rand::random_bool(0.5).then_some(now_us + LEASE_US);
                // Release before recording, so that the next holder does not find this one.
                watch.end(claim.queue);
                let result = Settlement { lease_until_us: goes_on, ..settlement(&head, outcome, now_us) };
                let settled = outcomes::settle(&db, &claim, &head, &result).await.unwrap();
                if outcome == Outcome::Succeeded && settled != Settled::Lost {
                    done.fetch_add(1, Ordering::Relaxed);
                }
                let Settled::Next(next) = settled else { break };
                head = next;
                if !watch.begin(worker, claim.queue, &head, now_us, now_us + LEASE_US) {
                    break;
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_senders_keep_the_order_of_each_queue_lose_nothing_and_never_send_twice_at_once() {
    const BATCHES: usize = 40;
    const BATCH: usize = 6;
    on_each_schema(&crate::migrations(), |db| async move {
        let (hooks, event) = ([add_hook(&db).await, add_hook(&db).await], add_event(&db).await);
        let (watch, done) = (Arc::new(Watch::default()), Arc::new(AtomicUsize::new(0)));
        let total = 2 * BATCHES * BATCH;
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..2 {
            let db = db.clone();
            tasks.spawn(async move {
                for _ in 0..BATCHES {
                    let random = || {
                        let mut rng = rand::rng();
                        new(hooks[rng.random_range(0..2)], event, rng.random_range(1..3), rng.random_range(1..3))
                    };
                    let batch: Vec<_> = (0..BATCH).map(|_| random()).collect();
                    add(&db, &batch).await;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            });
        }
        for worker in 0..4 {
            tasks.spawn(work(db.clone(), worker, Arc::clone(&watch), Arc::clone(&done), total));
        }
        let all = async {
            while let Some(result) = tasks.join_next().await {
                result.unwrap();
            }
        };
        tokio::time::timeout(Duration::from_secs(60), all).await.expect("deliveries are stuck");

        assert_eq!(queues(&db).await, []);
        let statuses = statuses(&db).await;
        assert_eq!(statuses.len(), total);
        assert!(statuses.iter().all(|(status, _)| *status == 2), "{statuses:?}");
        let (attempts,): (i64,) = db.one("SELECT COUNT(*) FROM attempts", &[]).await.unwrap();
        assert_eq!(attempts, statuses.iter().map(|(_, attempts)| attempts).sum::<i64>());
        assert!(watch.sends.load(Ordering::Relaxed) >= attempts as usize);
    })
    .await;
}

#[tokio::test]
async fn a_delivery_that_steps_aside_lets_later_ones_pass_and_is_sent_by_itself() {
    on_each_schema(&crate::migrations(), |db| async move {
        let (hook, event) = (add_hook(&db).await, add_event(&db).await);
        add(&db, &[new(hook, event, 1, 1), new(hook, event, 1, 1)]).await;
        let first = claim_one(&db, NOW_US).await;
        assert_eq!(claim_due(&db, NOW_US).await, []);
        assert_eq!(settle(&db, &first, Outcome::RetryAt(NOW_US + 10), NOW_US).await, Settled::Released);
        assert_eq!(claim_due(&db, NOW_US + 9).await, []);
        let again = claim_one(&db, NOW_US + 10).await;
        assert_eq!((again.1.id, again.1.attempts, again.1.failures), (first.1.id, 1, 1));
        // The first claim was released, so its late result is lost.
        assert_eq!(settle(&db, &first, Outcome::Succeeded, NOW_US + 10).await, Settled::Lost);
        settle(&db, &again, Outcome::StepAsideUntil(NOW_US + 100), NOW_US + 10).await;
        assert_eq!(queues(&db).await, [(0, 1, NOW_US + 10), (first.1.id, 1, NOW_US + 100)]);

        let second = claim_one(&db, NOW_US + 20).await;
        assert!(second.1.id > first.1.id);
        settle(&db, &second, Outcome::Succeeded, NOW_US + 20).await;
        let aside = claim_one(&db, NOW_US + 100).await;
        assert_eq!((aside.1.id, aside.0.queue.delivery_id, aside.1.failures), (first.1.id, first.1.id, 2));
        settle(&db, &aside, Outcome::Exhausted, NOW_US + 100).await;
        assert_eq!(queues(&db).await, []);
        assert_eq!(statuses(&db).await, [(3, 3), (2, 1)]);
        let numbers: Vec<_> =
            attempts::list(&db, first.1.id).await.unwrap().into_iter().map(|a| (a.number, a.request_body)).collect();
        // All attempts show the body stored with the first one in the log.
        assert_eq!(numbers, [1, 2, 3].map(|number| (number, Some(b"{}".to_vec()))));
    })
    .await;
}

#[tokio::test]
async fn a_queue_whose_sender_died_is_due_again_at_the_end_of_its_lease() {
    on_each_schema(&crate::migrations(), |db| async move {
        let (hook, event) = (add_hook(&db).await, add_event(&db).await);
        add(&db, &[new(hook, event, 1, 1), new(hook, event, 1, 1)]).await;
        let dead = claim_one(&db, NOW_US).await;
        assert_eq!(claim_due(&db, NOW_US + LEASE_US - 1).await, []);
        let mut successor = claim_one(&db, NOW_US + LEASE_US).await;
        assert_eq!((successor.1.id, successor.0.queue), (dead.1.id, dead.0.queue));
        assert_eq!(settle(&db, &dead, Outcome::Succeeded, NOW_US + LEASE_US).await, Settled::Lost);
        // A sender that continues keeps the queue.
        let now_us = NOW_US + LEASE_US;
        let result = Settlement {
            lease_until_us: Some(now_us + LEASE_US),
            ..settlement(&successor.1, Outcome::Succeeded, now_us)
        };
        let settled = outcomes::settle(&db, &successor.0, &successor.1, &result).await.unwrap();
        let Settled::Next(next) = settled else { panic!("{settled:?}") };
        assert!(next.id > dead.1.id);
        assert_eq!(claim_due(&db, now_us + 1).await, []);
        successor.1 = next;
        assert_eq!(settle(&db, &successor, Outcome::Succeeded, now_us).await, Settled::Released);
        assert_eq!(queues(&db).await, []);
    })
    .await;
}

#[tokio::test]
async fn queues_of_a_paused_hook_wait_and_those_of_a_deleted_one_end() {
    on_each_schema(&crate::migrations(), |db| async move {
        let (hook, event) = (add_hook(&db).await, add_event(&db).await);
        add(&db, &[new(hook, event, 1, 1)]).await;
        let claimed = claim_one(&db, NOW_US).await;
        // The hook was resumed after it was read.
        claims::give_back(&db, &claimed.0, NOW_US).await.unwrap();
        let claimed = claim_one(&db, NOW_US).await;
        let pause = HookEffect::Paused { reason: "gone".to_owned(), hook_updated_us: 0 };
        let result = Settlement { effect: pause, ..settlement(&claimed.1, Outcome::RetryAt(NOW_US), NOW_US) };
        outcomes::settle(&db, &claimed.0, &claimed.1, &result).await.unwrap();
        let claimed = claim_one(&db, NOW_US).await;
        claims::give_back(&db, &claimed.0, NOW_US).await.unwrap();
        assert_eq!(queues(&db).await, [(0, 1, PARKED_US)]);
        add(&db, &[new(hook, event, 1, 1)]).await;
        assert_eq!(queues(&db).await, [(0, 2, PARKED_US)]);

        // A test is sent, and its success resumes the hook.
        let mut tx = db.begin().await.unwrap();
        enqueue_alone(&mut tx, &new(hook, event, 1, super::TEST_SOURCE), NOW_US).await.unwrap();
        tx.commit().await.unwrap();
        let test = claim_one(&db, NOW_US).await;
        assert!(test.0.queue.is_test());
        let result = Settlement { effect: HookEffect::Resumed, ..settlement(&test.1, Outcome::Succeeded, NOW_US) };
        outcomes::settle(&db, &test.0, &test.1, &result).await.unwrap();
        let (reason,): (Option<String>,) = db.one("SELECT paused_reason FROM hooks", &[]).await.unwrap();
        assert_eq!((reason, queues(&db).await), (None, vec![(0, 2, NOW_US)]));

        let claimed = claim_one(&db, NOW_US).await;
        db.execute("DELETE FROM hooks", &[]).await.unwrap();
        claims::give_back(&db, &claimed.0, NOW_US).await.unwrap();
        assert_eq!(queues(&db).await, []);
        assert_eq!(statuses(&db).await.iter().map(|(status, _)| *status).collect::<Vec<_>>(), [4, 4, 2]);
    })
    .await;
}

#[tokio::test]
async fn an_edit_between_request_and_response_keeps_the_hook_running() {
    on_each_schema(&crate::migrations(), |db| async move {
        let (hook, event) = (add_hook(&db).await, add_event(&db).await);
        add(&db, &[new(hook, event, 1, 1)]).await;
        let claimed = claim_one(&db, NOW_US).await;
        db.execute("UPDATE hooks SET updated_us = 9", &[]).await.unwrap();
        let pause = HookEffect::Paused { reason: "gone".to_owned(), hook_updated_us: 0 };
        let result = Settlement { effect: pause, ..settlement(&claimed.1, Outcome::RetryAt(NOW_US), NOW_US) };
        outcomes::settle(&db, &claimed.0, &claimed.1, &result).await.unwrap();
        let (reason,): (Option<String>,) = db.one("SELECT paused_reason FROM hooks", &[]).await.unwrap();
        assert_eq!(reason, None);
    })
    .await;
}

#[tokio::test]
async fn finished_deliveries_are_queued_again_alone_or_in_order() {
    on_each_schema(&crate::migrations(), |db| async move {
        let (hook, event) = (add_hook(&db).await, add_event(&db).await);
        let all: Vec<_> = (0..3).map(|_| new(hook, event, 1, 1)).collect();
        add(&db, &all).await;
        for _ in 0..3 {
            let claimed = claim_one(&db, NOW_US).await;
            settle(&db, &claimed, Outcome::Succeeded, NOW_US).await;
        }
        let redeliver = async |uuid: &str| {
            let mut tx = db.begin().await.unwrap();
            let delivery = deliveries::redeliver(&mut tx, hook, uuid, NOW_US).await.unwrap();
            tx.commit().await.unwrap();
            delivery
        };
        assert_eq!(redeliver("unknown").await, None);
        let delivery = redeliver(&all[1].uuid).await.unwrap();
        assert_eq!((Status::from_column(delivery.status), delivery.attempts), (Some(Status::Pending), 1));
        assert_eq!(queues(&db).await, [(delivery.id, 1, NOW_US)]);
        // A second request while the delivery waits for its retry.
        let claimed = claim_one(&db, NOW_US).await;
        settle(&db, &claimed, Outcome::RetryAt(NOW_US + 1000), NOW_US).await;
        redeliver(&all[1].uuid).await.unwrap();
        assert_eq!(queues(&db).await, [(delivery.id, 1, NOW_US)]);
        let claimed = claim_one(&db, NOW_US).await;
        settle(&db, &claimed, Outcome::Exhausted, NOW_US).await;

        let find = async |range: (i64, i64)| deliveries::finished_between(&db, hook, range).await.unwrap().unwrap();
        let replay = async |found: &[deliveries::FinishedDelivery], has_new_ids: bool| {
            let mut tx = db.begin().await.unwrap();
            let count = deliveries::replay(&mut tx, hook, found, has_new_ids, NOW_US).await.unwrap();
            tx.commit().await.unwrap();
            count
        };
        assert_eq!(find((NOW_US + 1, NOW_US + 2)).await.len(), 0);
        let found = find((NOW_US, NOW_US)).await;
        assert_eq!(replay(&found, false).await, 3);
        for has_new_ids in [false, true] {
            assert_eq!(replay(&found, has_new_ids).await, 0, "they wait already");
        }
        let mut sent = Vec::new();
        for _ in 0..3 {
            let claimed = claim_one(&db, NOW_US).await;
            sent.push(claimed.1.uuid.clone());
            settle(&db, &claimed, Outcome::Succeeded, NOW_US).await;
        }
        assert_eq!(sent, all.iter().map(|new| new.uuid.clone()).collect::<Vec<_>>());
        assert_eq!(replay(&find((NOW_US, NOW_US)).await, true).await, 3);
        assert_eq!(queues(&db).await, [(0, 3, NOW_US)]);
        assert_eq!(statuses(&db).await.len(), 6);
    })
    .await;
}

#[tokio::test]
async fn old_deliveries_leave_by_age_and_number_and_waiting_ones_stay() {
    on_each_schema(&crate::migrations(), |db| async move {
        let (hook, event) = (add_hook(&db).await, add_event(&db).await);
        add(&db, &(0..6).map(|_| new(hook, event, 1, 1)).collect::<Vec<_>>()).await;
        for index in 0..5 {
            let claimed = claim_one(&db, NOW_US + index).await;
            settle(&db, &claimed, Outcome::Succeeded, NOW_US + index).await;
        }
        let hooks = purge::hooks_with_deliveries(&db, 0).await.unwrap();
        assert_eq!(hooks.iter().map(|hook| (hook.id, hook.is_there)).collect::<Vec<_>>(), [(hook.0, true)]);
        assert_eq!(purge::hooks_with_deliveries(&db, hook.0).await.unwrap(), []);
        // The first goes because of its age, the second because only three are kept.
        purge::deliveries(&db, &hooks[0], NOW_US + 1, 3).await.unwrap();
        let left: Vec<_> = statuses(&db).await.into_iter().map(|(status, _)| status).collect();
        assert_eq!(left, [2, 2, 2, 0]);
        purge::events(&db, NOW_US).await.unwrap();
        purge::deliveries(&db, &hooks[0], NOW_US + 100, 3).await.unwrap();
        assert_eq!(statuses(&db).await, [(0, 0)]);
        db.execute("DELETE FROM hooks", &[]).await.unwrap();
        let hooks = purge::hooks_with_deliveries(&db, 0).await.unwrap();
        assert!(!hooks[0].is_there);
        purge::deliveries(&db, &hooks[0], 0, 1000).await.unwrap();
        assert_eq!(statuses(&db).await, []);
        let (events,): (i64,) = db.one("SELECT COUNT(*) FROM events", &[]).await.unwrap();
        assert_eq!(events, 0, "an event that no feed has goes with its last delivery");
        let (attempts,): (i64,) = db.one("SELECT COUNT(*) FROM attempts", &[]).await.unwrap();
        assert_eq!(attempts, 0);
    })
    .await;
}

#[tokio::test]
async fn sending_one_delivery_takes_few_statements() {
    on_each_schema(&crate::migrations(), |db| async move {
        let (hook, event) = (add_hook(&db).await, add_event(&db).await);
        let before = db.statements();
        add(&db, &[new(hook, event, 1, 1)]).await;
        assert_eq!(db.statements() - before, 2);
        let before = db.statements();
        let claimed = claim_one(&db, NOW_US).await;
        assert!(db.statements() - before <= 3);
        let before = db.statements();
        settle(&db, &claimed, Outcome::Succeeded, NOW_US).await;
        assert_eq!(db.statements() - before, 5);
    })
    .await;
}
