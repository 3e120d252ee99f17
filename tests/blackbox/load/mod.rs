//! A mixed load on an installation with several gateways: files, issues, reads, clones and pushes, of repositories with webhooks. Every
//! attempt is measured; what was acknowledged is noted and read back in the end.
//!
//! Not here: the disturbances, which the tests that use it make.

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

/// Longest time of one attempt, by the client's clock: a gateway that is paused for 20 s responds within it.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(45);
/// Longest time until a write is acknowledged, with all its attempts.
const WRITE_TIMEOUT: Duration = Duration::from_secs(150);
const REPOSITORIES_PER_STORE: usize = 2;
/// Most repositories that are made until each store has some: they are placed at random.
const MAX_REPOSITORIES: usize = 60;
/// The number at the end of the name of the store of the newest repository.
const NEWEST_PLACEMENT: &str =
    "SELECT CAST(SUBSTR(store, 5) AS BIGINT) FROM placements ORDER BY repository_id DESC LIMIT 1";

/// How often a client repeats what fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeats {
    /// Once, at another gateway, after the time that the response names.
    Once,
    /// Until it is acknowledged.
    UntilAcknowledged,
}

/// The writes that were acknowledged.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Commits by repository and path.
    files: BTreeMap<(String, String), String>,
    /// Titles, and the fact that it is closed, by repository and number.
    issues: BTreeMap<(String, i64), (String, bool)>,
    /// The last acknowledged commit by repository and branch.
    branches: BTreeMap<(String, String), String>,
}

/// The state that the workers share.
pub(super) struct Shared {
    /// One user, at each gateway.
    users: Vec<User>,
    next_user: AtomicUsize,
    repositories: Vec<String>,
    repeats: Repeats,
    is_over: AtomicBool,
    samples: Mutex<Vec<Sample>>,
    /// Operations that failed with all their repeats, and responses that are wrong or not clear.
    lost: Mutex<Vec<String>>,
    unclear: Mutex<Vec<String>>,
    ledger: Mutex<Ledger>,
    git: Git,
}

/// A load that goes on until [`Load::finish`].
pub(crate) struct Load {
    shared: Arc<Shared>,
    workers: JoinSet<()>,
    receiver: Receiver,
}

impl Load {
    /// Makes repositories with a hook each, spread over the stores, and starts the workers.
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

    /// All attempts that ended so far.
    pub(crate) fn samples(&self) -> Vec<Sample> {
        self.shared.samples.lock().unwrap().clone()
    }

    /// Operations that failed with all their repeats.
    pub(crate) fn lost(&self) -> Vec<String> {
        self.shared.lost.lock().unwrap().clone()
    }

    /// Responses that are wrong, or no clear errors.
    pub(crate) fn unclear(&self) -> Vec<String> {
        self.shared.unclear.lock().unwrap().clone()
    }

    /// Ends the load and reads back all that was acknowledged.
    pub(crate) async fn finish(&mut self, cluster: &Cluster) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        while let Some(ended) = self.workers.join_next().await {
            ended.unwrap();
        }
        verify::verify(&self.shared, &self.receiver, cluster).await;
    }
}

/// Makes repositories, and returns the names of two on each store.
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
    assert_eq!(chosen.len(), stores * REPOSITORIES_PER_STORE, "some store gets no repositories");
    chosen
}

impl Shared {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// The user at a gateway: operations begin at each in turn, and every repeat is made at another one than the attempt before.
    fn user(&self, operation: usize, attempt: usize) -> &User {
        &self.users[(operation + attempt) % self.users.len()]
    }

    /// Makes attempts, each at the next gateway, until one succeeds or there may be no more.
    async fn perform<T, F>(&self, kind: Kind, what: &str, attempt: impl Fn(User) -> F) -> Option<T>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let (operation, start) = (self.next_user.fetch_add(1, Ordering::SeqCst), Instant::now());
        for number in 0_usize.. {
            let (user, began) = (self.user(operation, number).clone(), Instant::now());
            let url = user.url.clone();
            let outcome = tokio::time::timeout(ATTEMPT_TIMEOUT, attempt(user)).await;
            let outcome = outcome.unwrap_or_else(|_| Err(Failure::unclear("no answer in time")));
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
