//! A mixed load on an installation with several gateways: files, issues, reads, clones and pushes
//! of repositories with webhooks. Every attempt is measured; acknowledged writes are recorded and
//! read back at the end. The tests that use it cause the disturbances.

mod failure;
mod samples;
mod verify;
mod workers;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;

pub(crate) use failure::Failure;
pub(crate) use samples::{Event, Kind, Sample};

use crate::harness::receiver::Receiver;
use crate::harness::{Cluster, Git, Role, User};
use crate::webhooks::hook;

/// Longest attempt by the client's clock. A gateway that is paused for 20 s responds within it.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(45);
const WRITE_TIMEOUT: Duration = Duration::from_secs(150);
const REPOSITORIES_PER_STORE: usize = 2;
/// Maximum number of repositories to create until each store has some, because placement is random.
const MAX_REPOSITORIES: usize = 60;
/// The number at the end of the store's name, for the newest repository.
const NEWEST_PLACEMENT: &str =
    "SELECT CAST(SUBSTR(store, 5) AS BIGINT) FROM placements ORDER BY repository_id DESC LIMIT 1";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeats {
    /// Once, at another gateway, after the time that the response names.
    Once,
    UntilAcknowledged,
}

#[derive(Debug, Default)]
pub(super) struct Ledger {
    files: BTreeMap<(String, String), String>,
    /// Title, and whether it is closed, by repository and number.
    issues: BTreeMap<(String, i64), (String, bool)>,
    branches: BTreeMap<(String, String), String>,
}

pub(super) struct Shared {
    /// One user, at each gateway.
    users: Vec<User>,
    next_user: AtomicUsize,
    repositories: Vec<String>,
    repeats: Repeats,
    is_over: AtomicBool,
    samples: Mutex<Vec<Sample>>,
    /// Operations that failed with all their retries, and responses that are wrong or unclear.
    lost: Mutex<Vec<String>>,
    unclear: Mutex<Vec<String>>,
    ledger: Mutex<Ledger>,
    git: Git,
}

/// A load that runs until [`Load::finish`].
pub(crate) struct Load {
    shared: Arc<Shared>,
    workers: JoinSet<()>,
    receiver: Receiver,
}

impl Load {
    /// Creates repositories on all stores, each with a hook, and starts the workers.
    pub(crate) async fn start(cluster: &Cluster, repeats: Repeats) -> Self {
        let user = cluster.user("load").await;
        let receiver = Receiver::start().await;
        let repositories = repositories(cluster, &user).await;
        for name in &repositories {
            hook(&user, &user.repo(name, "/hooks"), &receiver.url(&format!("/{name}")), json!({})).await;
        }
        let users = (0..cluster.replicas(Role::Gateway)).map(|number| user.at(&cluster.gateway_url(number))).collect();
        let shared = Arc::new(Shared {
            users,
            next_user: AtomicUsize::new(0),
            repositories,
            repeats,
            is_over: AtomicBool::new(false),
            samples: Mutex::default(),
            lost: Mutex::default(),
            unclear: Mutex::default(),
            ledger: Mutex::default(),
            git: Git::new(),
        });
        let workers = workers::start(&shared);
        Self { shared, workers, receiver }
    }

    pub(crate) fn samples(&self) -> Vec<Sample> {
        self.shared.samples.lock().unwrap().clone()
    }

    /// Operations that failed with all their retries.
    pub(crate) fn lost(&self) -> Vec<String> {
        self.shared.lost.lock().unwrap().clone()
    }

    pub(crate) fn unclear(&self) -> Vec<String> {
        self.shared.unclear.lock().unwrap().clone()
    }

    pub(crate) async fn finish(&mut self, cluster: &Cluster) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        while let Some(ended) = self.workers.join_next().await {
            ended.unwrap();
        }
        verify::verify(&self.shared, &self.receiver, cluster).await;
    }
}

/// Creates repositories, and returns the names of two on each store.
async fn repositories(cluster: &Cluster, user: &User) -> Vec<String> {
    let stores = cluster.replicas(Role::Git);
    let mut by_store = vec![Vec::new(); stores];
    for number in 0..MAX_REPOSITORIES {
        let name = format!("repo-{number}");
        user.new_repository(&name, json!({"auto_init": true, "readme": "Default"})).await;
        let placed = cluster.numbers(Role::Repo, NEWEST_PLACEMENT).await;
        by_store[usize::try_from(placed[0]).unwrap()].push(name);
        if by_store.iter().all(|names| names.len() >= REPOSITORIES_PER_STORE) {
            break;
        }
    }
    let chosen = by_store.into_iter().flat_map(|names| names.into_iter().take(REPOSITORIES_PER_STORE));
    let chosen: Vec<_> = chosen.collect();
    assert_eq!(chosen.len(), stores * REPOSITORIES_PER_STORE, "a store got no repositories");
    chosen
}

impl Shared {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// The user at a gateway: operations start at each in turn, and every retry goes to another one
    /// than the attempt before.
    fn user(&self, operation: usize, attempt: usize) -> &User {
        &self.users[(operation + attempt) % self.users.len()]
    }

    /// Attempts an operation, each time at the next gateway, until it succeeds or no retry is left.
    async fn perform<T, F>(&self, kind: Kind, what: &str, attempt: impl Fn(User) -> F) -> Option<T>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let (operation, start) = (self.next_user.fetch_add(1, Ordering::SeqCst), Instant::now());
        for number in 0_usize.. {
            let (user, began) = (self.user(operation, number).clone(), Instant::now());
            let url = user.url.clone();
            let outcome = tokio::time::timeout(ATTEMPT_TIMEOUT, attempt(user)).await;
            let outcome = outcome.unwrap_or_else(|_| Err(Failure::unclear("no response in time")));
            let failed = outcome.as_ref().err().map(|failure| failure.text.clone());
            self.samples.lock().unwrap().push(Sample { kind, began, took: began.elapsed(), failed });
            let failure = match outcome {
                Ok(done) => return Some(done),
                Err(failure) => failure,
            };
            if !failure.is_clear {
                self.unclear.lock().unwrap().push(format!("{what} at {url}: {}", failure.text));
            }
            let may_repeat = match self.repeats {
                Repeats::Once => number == 0,
                Repeats::UntilAcknowledged => start.elapsed() < WRITE_TIMEOUT,
            };
            if !may_repeat {
                self.lost.lock().unwrap().push(format!("{what} at {url}: {}", failure.text));
                return None;
            }
            tokio::time::sleep(failure.pause).await;
        }
        None
    }
}
