//! Limits on concurrent work (git processes, large reads) per store, per repository and per client, and on the requests that wait
//! for it.

use std::{sync::Arc, time::Duration};

use ferrite_kit::auth::Caller;
use ferrite_proto::{grant::Grant, id::RepositoryId, metadata};
use http::HeaderMap;
use metrics::Gauge;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use crate::types::{error::GitError, weak_map::WeakMap};

/// Longest client address that is accepted as a key, in bytes; with a longer one the client counts as unknown.
const MAX_ADDRESS_BYTES: usize = 64;

/// One limiter per kind of work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LimiterOptions {
    /// Requests that may wait for one repository.
    pub(crate) queue_per_repository: usize,
    /// Requests of one client that may wait.
    pub(crate) queue_per_client: usize,
    /// Longest time that a request waits.
    pub(crate) queue_timeout: Duration,
    /// Advertisements of refs: short processes.
    pub(crate) advertisements: usize,
    /// Fetches, busy or waiting for their clients.
    pub(crate) fetches: usize,
    /// Fetches of one repository.
    pub(crate) fetches_per_repository: usize,
    /// Packs made for fetches (`pack-objects`).
    pub(crate) packs: usize,
    /// Pushes.
    pub(crate) pushes: usize,
    /// Pushes to one repository.
    pub(crate) pushes_per_repository: usize,
    /// Large files that are being read.
    pub(crate) raw_files: usize,
    /// Open sessions over SSH, busy or idle. While it works, a session also holds a permit of `fetch`, `archive` or `push`.
    pub(crate) sessions: usize,
    /// Archives being made.
    pub(crate) archives: usize,
    /// Searches for the commits of a path by `git rev-list`.
    pub(crate) logs: usize,
    /// Copies of repositories for forks.
    pub(crate) copies: usize,
}

/// One limiter per kind of work.
#[derive(Debug)]
pub(crate) struct Limiters {
    /// Fetches: processes that mostly wait for their clients.
    pub(crate) advertise: Arc<Limiter>,
    /// Pushes.
    pub(crate) fetch: Arc<Limiter>,
    /// Reads of large files.
    pub(crate) pack: Arc<Limiter>,
    /// Taking packs in.
    pub(crate) push: Arc<Limiter>,
    /// Reading large files.
    pub(crate) raw: Arc<Limiter>,
    /// Taking files of releases in: no process, mostly waiting for clients.
    pub(crate) upload: Arc<Limiter>,
    /// Processes that speak with a client for as long as it likes; they need another turn while they work.
    pub(crate) session: Arc<Limiter>,
    /// Making archives.
    pub(crate) archive: Arc<Limiter>,
    /// Looking for the commits of a path.
    pub(crate) log: Arc<Limiter>,
    /// Copying repositories.
    pub(crate) copy: Arc<Limiter>,
}

impl Limiters {
    /// Creates the limiters by the settings; a setting of 0 is replaced by a number that follows from the processor's cores.
    pub(crate) fn new(options: &LimiterOptions) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let waiting = QueueLimits {
            timeout: options.queue_timeout,
            per_repository: options.queue_per_repository,
            per_client: options.queue_per_client,
        };
        let limiter = |name, set: usize, default, per_repository| {
            let store = if set == 0 { default } else { set };
            Arc::new(Limiter { waiting, ..Limiter::new(name, store, per_repository) })
        };
        Self {
            advertise: limiter("advertise", options.advertisements, 4 * cores, usize::MAX),
            fetch: limiter("fetch", options.fetches, 64 * cores, options.fetches_per_repository),
            pack: limiter("pack", options.packs, cores.max(2), (cores / 2).max(2)),
            push: limiter("push", options.pushes, 2 * cores, options.pushes_per_repository),
            raw: limiter("raw", options.raw_files, 8 * cores, 8),
            upload: limiter("upload", 0, 16 * cores, 16),
            session: limiter("session", options.sessions, 64 * cores, 32),
            archive: limiter("archive", options.archives, (cores / 2).max(1), 4),
            log: limiter("log", options.logs, cores, 2),
            copy: limiter("copy", options.copies, (cores / 2).max(1), 2),
        }
    }
}

/// Limit on concurrent work of one kind: in the store, for each repository and for each client.
#[derive(Debug)]
pub(crate) struct Limiter {
    name: &'static str,
    waiting: QueueLimits,
    store: Arc<Semaphore>,
    per_repository: usize,
    repositories: WeakMap<RepositoryId, KeyedSemaphore>,
    per_client: usize,
    clients: WeakMap<ClientKey, KeyedSemaphore>,
    /// Gauges of permits that are held, and of requests that wait for one.
    running_gauge: Gauge,
    waiting_gauge: Gauge,
}

/// Part of a gauge, until dropped.
#[derive(Debug)]
struct Counted(Gauge);

impl Counted {
    fn by(gauge: &Gauge) -> Self {
        gauge.increment(1.0);
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

/// Limits on waiting requests: the time that each waits, and their number per repository and per client.
#[derive(Clone, Copy, Debug)]
struct QueueLimits {
    timeout: Duration,
    per_repository: usize,
    per_client: usize,
}

/// Key of the limits per client: the account, or the address for anonymous requests if the gateway sent it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ClientKey {
    /// An account, by its user id.
    User(i64),
    /// Anonymous, from a known address.
    Address(String),
    /// Anonymous, address unknown. All such requests share one limit.
    Unknown,
}

impl ClientKey {
    /// Returns the key of a request. The header with the client's address is trusted only if the caller is the gateway of the
    /// installation.
    pub(crate) fn of(caller: &Caller, grant: &Grant, headers: &HeaderMap) -> Self {
        if let Some(user) = grant.user_id() {
            return Self::User(user.0);
        }
        let address = headers.get(metadata::CLIENT).and_then(|address| address.to_str().ok());
        match address.filter(|address| caller.is_gateway() && (1..=MAX_ADDRESS_BYTES).contains(&address.len())) {
            Some(address) => Self::Address(address.to_owned()),
            None => Self::Unknown,
        }
    }
}

/// Semaphores of one repository or one client, dropped with the last permit or waiter.
#[derive(Debug)]
struct KeyedSemaphore {
    /// One permit per running request.
    running: Arc<Semaphore>,
    /// One permit per request that runs or waits.
    queued: Arc<Semaphore>,
}

impl KeyedSemaphore {
    fn new(running: usize, waiting: usize) -> Self {
        let queued = Arc::new(Semaphore::new(running + waiting));
        Self { running: Arc::new(Semaphore::new(running)), queued }
    }
}

/// Permission to do one unit of work (run one process), until dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    _store: OwnedSemaphorePermit,
    _running: [OwnedSemaphorePermit; 2],
    _queued: [OwnedSemaphorePermit; 2],
    _semaphores: [Arc<KeyedSemaphore>; 2],
    _counted: Counted,
}

impl Limiter {
    /// Creates a limiter of `store` permits, of which one repository may hold `per_repository` and one client half.
    pub(crate) fn new(name: &'static str, store: usize, per_repository: usize) -> Self {
        Self {
            name,
            waiting: QueueLimits { timeout: Duration::from_secs(30), per_repository: 32, per_client: 64 },
            store: Arc::new(Semaphore::new(store)),
            // One repository never holds all permits, unless there is only one.
            per_repository: per_repository.min(store.saturating_sub(1)).max(1),
            repositories: WeakMap::default(),
            per_client: (store / 2).max(1),
            clients: WeakMap::default(),
            running_gauge: metrics::gauge!("ferrite_git_admission_running", "gate" => name),
            waiting_gauge: metrics::gauge!("ferrite_git_admission_waiting", "gate" => name),
        }
    }

    /// Waits for a permit.
    ///
    /// # Errors
    /// `Overloaded` when too many requests wait already for the repository or for the client, or when no permit is free in time.
    pub(crate) async fn acquire(&self, id: RepositoryId, client: &ClientKey) -> Result<Permit, GitError> {
        let of_repository = || KeyedSemaphore::new(self.per_repository, self.waiting.per_repository);
        let repository = self.repositories.get_or_insert_with(id, of_repository);
        let of_client = || KeyedSemaphore::new(self.per_client, self.waiting.per_client);
        let client = self.clients.get_or_insert_with(client.clone(), of_client);
        let queued =
            (Arc::clone(&client.queued).try_acquire_owned(), Arc::clone(&repository.queued).try_acquire_owned());
        let (Ok(one), Ok(two)) = queued else { return Err(self.overloaded()) };
        // In this order: a request that waits for its client's or repository's permit holds no permit of the store meanwhile.
        let all = async {
            let client = Arc::clone(&client.running).acquire_owned().await?;
            let repository = Arc::clone(&repository.running).acquire_owned().await?;
            Ok::<_, AcquireError>(([client, repository], Arc::clone(&self.store).acquire_owned().await?))
        };
        let waiting = Counted::by(&self.waiting_gauge);
        let acquired = tokio::time::timeout(self.waiting.timeout, all).await;
        drop(waiting);
        match acquired {
            Ok(Ok((running, store))) => {
                let (semaphores, counted) = ([client, repository], Counted::by(&self.running_gauge));
                Ok(Permit {
                    _store: store,
                    _running: running,
                    _queued: [one, two],
                    _semaphores: semaphores,
                    _counted: counted,
                })
            }
            _ => Err(self.overloaded()),
        }
    }

    /// Counts a refusal and returns its error.
    fn overloaded(&self) -> GitError {
        metrics::counter!("ferrite_git_refused_total", "gate" => self.name).increment(1);
        GitError::Overloaded
    }
}

#[cfg(test)]
mod tests;
