//! All processes are killed while commits and issues are made, and a receiver rejects half of its
//! requests. Every event arrives, no other does, and the order is kept.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use tokio::task::JoinSet;

use crate::harness::receiver::{LOOPBACK, Received, Receiver};
use crate::harness::{Cluster, Options, Role, User, rounds};
use crate::issue_durability::write;
use crate::webhooks::hook;

on_own_installations! {
    every_event_arrives_in_order_across_crashes(Options { settings: LOOPBACK.to_vec(), on_disk: true, ..Options::default() })
}

/// Commits and issue changes in `make test-slow`.
const WRITES: usize = 2_000;
/// Repositories with concurrent writes. Deliveries are ordered within each.
const REPOSITORIES: usize = 10;
/// Highest number of rejected attempts of one delivery, so that none runs out of attempts.
const MAX_REFUSALS: u32 = 6;
const CRASH_INTERVAL: Duration = Duration::from_millis(400);
/// Failed attempts after which a delivery no longer blocks later ones.
const ORDERED_ATTEMPTS: usize = 4;
/// Time limit for the last events: delays after crashes grow with each attempt.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(900);

/// Queries for the state of events, shown when some are missing.
const TRACES: [(Role, &str); 6] = [
    (
        Role::Git,
        "SELECT COUNT(*) FROM outbox WHERE subscriber = 'hook-svc' GROUP BY CASE WHEN delivered_us IS NULL THEN 0 ELSE 1 END",
    ),
    (
        Role::Issue,
        "SELECT COUNT(*) FROM outbox WHERE kind = 'issue.updated' GROUP BY CASE WHEN delivered_us IS NULL THEN 0 ELSE 1 END",
    ),
    (Role::Hook, "SELECT COUNT(*) FROM inbox WHERE kind = 'issue.updated'"),
    (
        Role::Hook,
        "SELECT COUNT(*) FROM events WHERE name = 'issues' GROUP BY CASE WHEN is_dispatched THEN 0 ELSE 1 END",
    ),
    (Role::Hook, "SELECT COUNT(*) FROM deliveries GROUP BY status ORDER BY status"),
    (Role::Hook, "SELECT waiting FROM lanes"),
];

fn random() -> impl Fn() -> u64 {
    let state = AtomicU64::new(u64::from(std::process::id()) | 1);
    move || {
        let next = state
            .load(Ordering::Relaxed)
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state.store(next, Ordering::Relaxed);
        next >> 33
    }
}

/// Changes of one repository in order, with the webhook path and event that report them.
struct Written {
    path: String,
    event: &'static str,
    changes: Vec<String>,
}

async fn commits(user: User, repo: String, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for number in 0..count {
        let path = format!("{repo}/contents/file-{number}");
        let body = json!({"message": format!("Commit {number}"), "content": "eA=="});
        let made = write(&user, Method::PUT, &path, &format!("commit-{repo}-{number}"), &body).await.json();
        ids.push(made["commit"]["sha"].as_str().unwrap().to_owned());
    }
    ids
}

async fn issue_changes(user: User, repo: String, count: usize) -> Vec<String> {
    let mut changes = Vec::new();
    for step in 0..count / 2 {
        let path = format!("{repo}/issues");
        let made =
            write(&user, Method::POST, &path, &format!("open-{repo}-{step}"), &json!({"title": "Issue"})).await.json();
        let path = format!("{path}/{}", made["number"]);
        write(&user, Method::PATCH, &path, &format!("close-{repo}-{step}"), &json!({"state": "closed"})).await;
        changes.extend(["opened", "closed"].map(|action| format!("{action} {}", made["number"])));
    }
    changes
}

/// The change in a delivery, in the notation of the writers.
fn change(one: &Received) -> String {
    let payload = one.json();
    match payload["after"].as_str() {
        Some(commit) => commit.to_owned(),
        None => format!("{} {}", payload["action"].as_str().unwrap_or_default(), payload["number"]),
    }
}

/// Fails unless exactly these changes arrived, and each was attempted only after earlier ones had
/// arrived or no longer blocked it.
fn check(received: &[Received], written: &Written) {
    let (event, expected) = (written.event, &written.changes);
    // A hook may also get the commit that created the repository just before it.
    let is_first =
        |one: &Received| one.json()["before"].as_str().is_some_and(|before| before.bytes().all(|byte| byte == b'0'));
    let is_of_this = |one: &&Received| one.event() == event && one.path == written.path && !is_first(one);
    let received: Vec<_> = received.iter().filter(is_of_this).collect();
    let (mut first, mut taken, mut failed) = (HashMap::new(), HashMap::new(), HashMap::<_, Vec<_>>::new());
    let mut ids = HashMap::<_, HashSet<_>>::new();
    for (place, one) in received.iter().enumerate() {
        let change = change(one);
        ids.entry(change.clone()).or_default().insert(one.id());
        first.entry(change.clone()).or_insert(place);
        if one.status == 200 {
            taken.entry(change).or_insert(place);
        } else {
            failed.entry(change).or_default().push(place);
        }
    }
    let known: HashSet<_> = expected.iter().collect();
    assert!(taken.keys().all(|change| known.contains(change)), "an unexpected event arrived");
    let missing: Vec<_> = expected.iter().filter(|change| !taken.contains_key(*change)).collect();
    assert!(missing.is_empty(), "{event} events are missing: {missing:?}");
    assert!(ids.values().all(|ids| ids.len() == 1), "an event has one delivery");
    for pair in expected.windows(2) {
        let leaves = failed.get(&pair[0]).and_then(|places| places.get(ORDERED_ATTEMPTS - 1));
        let done = taken[&pair[0]].min(leaves.copied().unwrap_or(usize::MAX));
        assert!(first[&pair[1]] > done, "{} was attempted before {} was done", pair[1], pair[0]);
    }
}

async fn unreliable_receiver() -> Receiver {
    let (chance, refusals) = (random(), Mutex::new(HashMap::<String, u32>::new()));
    Receiver::answering(move |one| {
        let mut refusals = refusals.lock().unwrap();
        let refused = refusals.entry(one.id().to_owned()).or_default();
        let is_taken = chance().is_multiple_of(2) || *refused >= MAX_REFUSALS;
        *refused += u32::from(!is_taken);
        (if is_taken { 200 } else { 503 }, Duration::ZERO)
    })
    .await
}

/// Kills random processes until `work` is done. Returns the results and the number of kills.
async fn crash_until_done(cluster: &Cluster, mut work: JoinSet<Written>) -> (Vec<Written>, usize) {
    let (chance, mut kills, mut done) = (random(), 0, Vec::new());
    while !work.is_empty() {
        tokio::time::sleep(CRASH_INTERVAL).await;
        let role = Role::ALL[usize::try_from(chance()).unwrap() % Role::ALL.len()];
        tokio::task::block_in_place(|| cluster.crash(role));
        kills += 1;
        while let Some(one) = work.try_join_next() {
            done.push(one.unwrap());
        }
    }
    (done, kills)
}

async fn every_event_arrives_in_order_across_crashes(cluster: &Cluster) {
    let ada = &cluster.user("ada").await;
    let receiver = unreliable_receiver().await;
    let count = rounds(WRITES) / 2 / REPOSITORIES;
    let mut work = JoinSet::new();
    for number in 0..REPOSITORIES {
        let repo = ada.new_tracker(&format!("durable-{number}"), json!({"auto_init": true})).await;
        let path = format!("/{number}");
        hook(ada, &format!("{repo}/hooks"), &receiver.url(&path), json!({})).await;
        let (user, user2, repo2, path2) = (ada.clone(), ada.clone(), repo.clone(), path.clone());
        work.spawn(async move { Written { path, event: "push", changes: commits(user, repo, count).await } });
        work.spawn(async move {
            Written { path: path2, event: "issues", changes: issue_changes(user2, repo2, count).await }
        });
    }
    let (written, kills) = crash_until_done(cluster, work).await;
    let expected: HashSet<_> =
        written.iter().flat_map(|one| one.changes.iter().map(|change| (one.path.as_str(), change.as_str()))).collect();
    let deadline = tokio::time::Instant::now() + DRAIN_TIMEOUT;
    let is_complete = |all: &[Received]| {
        let taken: HashSet<_> =
            all.iter().filter(|one| one.status == 200).map(|one| (one.path.clone(), change(one))).collect();
        expected.iter().all(|(path, change)| taken.contains(&((*path).to_owned(), (*change).to_owned())))
    };
    while !is_complete(&receiver.all()) && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let received = receiver.all();
    eprintln!("{kills} kills, {} changes, {} deliveries", expected.len(), received.len());
    if !is_complete(&received) {
        for (role, query) in TRACES {
            eprintln!("{role:?} {query}: {:?}", cluster.numbers(role, query).await);
        }
    }
    for one in &written {
        check(&received, one);
    }
}
