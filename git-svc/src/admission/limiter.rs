//! Limits on concurrent work (git processes, large reads, clones) and on waiting requests, per
//! store, repository and client.

use std::{sync::Arc, time::Duration};

use ferrite_proto::{
    grant::{Credential, Grant},
    id::RepositoryId,
    metadata,
};
use ferrite_rpc::auth::Caller;
use git_store::types::{error::GitError, weak_map::WeakMap};
use http::HeaderMap;
use metrics::Gauge;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// Maximum length of a client address used as a key. A longer one counts as unknown.
const MAX_ADDRESS_BYTES: usize = 64;

/// Lower bound of the default for concurrent pushes: a deploy key gets a quarter of them, an
/// account with all its deploy keys half.
const MIN_PUSHES: usize = 4;

/// Concurrent work of each class; 0 derives the number from the CPU cores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LimiterOptions {
    /// Requests that may wait for one repository.
    pub(crate) queue_per_repository: usize,
    pub(crate) queue_timeout: Duration,
    /// Clones from the pack cache, which need no process. Not 0.
    pub(crate) clones: usize,
    /// Light work, which mostly waits for clients.
    pub(crate) light: usize,
    /// Heavy work, which keeps a core busy.
    pub(crate) heavy: usize,
    pub(crate) pushes: usize,
}

/// One limiter per kind of work, so that one kind never waits for another of its class. An SSH
/// session also holds a permit of `fetch`, `archive` or `push` while it works, and a fetch one of
/// `pack` while its pack is made.
#[derive(Debug)]
pub(crate) struct Limiters {
    /// Lists of refs: short processes. Light.
    pub(crate) advertise: Arc<Limiter>,
    /// Clones from the pack cache: no process, mostly waiting for clients.
    pub(crate) clone: Arc<Limiter>,
    /// Other fetches. Light.
    pub(crate) fetch: Arc<Limiter>,
    /// Reads of large files. Light.
    pub(crate) raw: Arc<Limiter>,
    /// Uploads of release assets. Light.
    pub(crate) upload: Arc<Limiter>,
    /// SSH sessions, even idle ones. Light.
    pub(crate) session: Arc<Limiter>,
    /// Packs for fetches (`pack-objects`). Heavy.
    pub(crate) pack: Arc<Limiter>,
    pub(crate) archive: Arc<Limiter>,
    /// Path history (`git rev-list`). Heavy.
    pub(crate) log: Arc<Limiter>,
    /// Diffs. Heavy.
    pub(crate) diff: Arc<Limiter>,
    /// Merges of pull requests, and attempts to find out whether they are possible: short processes.
    pub(crate) merge: Arc<Limiter>,
    /// Copies of repositories for forks. Heavy.
    pub(crate) copy: Arc<Limiter>,
    pub(crate) push: Arc<Limiter>,
}

impl Limiters {
    /// Gives each kind of work a share of its class. Allows at least two heavy jobs, so that one
    /// account never holds all permits.
    pub(crate) fn new(options: &LimiterOptions) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let or_default = |set: usize, default: usize| if set == 0 { default } else { set };
        let light = or_default(options.light, 64 * cores);
        let heavy = or_default(options.heavy, cores);
        let pushes = or_default(options.pushes, (2 * cores).max(MIN_PUSHES));
        let waiting = QueueLimits {
            timeout: options.queue_timeout,
            per_repository: options.queue_per_repository,
            per_client: 2 * options.queue_per_repository,
        };
        let limiter = |name, store: usize, per_repository| {
            Arc::new(Limiter { waiting, ..Limiter::new(name, store.max(1), per_repository) })
        };
        // What web pages need: crawlers have many addresses, and leave half to accounts.
        let of_pages = |name, store: usize, per_repository| {
            let anonymous = Arc::new(Semaphore::new((store / 2).max(1)));
            Arc::new(Limiter { waiting, anonymous, ..Limiter::new(name, store, per_repository) })
        };
        Self {
            advertise: limiter("advertise", light / 16, usize::MAX),
            clone: limiter("clone", options.clones, options.clones - options.clones / 4),
            fetch: limiter("fetch", light, light / 2),
            raw: limiter("raw", light / 8, light / 16),
            upload: limiter("upload", light / 4, light / 8),
            session: limiter("session", light, light / 4),
            pack: limiter("pack", heavy.max(2), (heavy / 2).max(2)),
            archive: of_pages("archive", (heavy / 2).max(2), (heavy / 4).max(4)),
            log: of_pages("log", heavy.max(2), (heavy / 4).max(2)),
            diff: of_pages("diff", heavy.max(2), (heavy / 2).max(2)),
            merge: limiter("merge", (4 * heavy).max(8), (2 * heavy).max(4)),
            copy: limiter("copy", (heavy / 2).max(2), (heavy / 4).max(2)),
            // The most expensive work for the store: a client sends little, and its whole pack has
            // to be checked.
            push: Arc::new(Limiter {
                waiting,
                per_user: (pushes / 4).max(1),
                // For deploy keys in grants of an older repo-svc, which do not name their account.
                per_address: (pushes / 4).max(1),
                ..Limiter::new("push", pushes, (pushes / 2).max(4))
            }),
        }
    }
}

/// Limits concurrent work of one kind for the store, each repository and each client.
///
/// A client is an account, or an address without an account. It gets half of the permits, and half
/// of the queue of a repository. For pushes, an account gets a quarter, each of its deploy keys
/// too, and all of them together half.
#[derive(Debug)]
pub(crate) struct Limiter {
    name: &'static str,
    waiting: QueueLimits,
    permits: usize,
    store: Arc<Semaphore>,
    /// Permits of all requests without an account.
    anonymous: Arc<Semaphore>,
    per_repository: usize,
    repositories: WeakMap<RepositoryId, KeyedSemaphore>,
    /// Permits of a user without deploy keys, and of each deploy key.
    per_user: usize,
    /// Permits of a user with all deploy keys.
    per_account: usize,
    per_address: usize,
    /// By user or deploy key.
    shares: WeakMap<ClientKey, KeyedSemaphore>,
    /// By account, like `lines`, so that adding deploy keys gains nothing.
    clients: WeakMap<ClientKey, KeyedSemaphore>,
    /// One permit per request of a client that runs on a repository or waits for it.
    lines: WeakMap<(RepositoryId, ClientKey), Semaphore>,
    /// Held permits and waiting requests.
    running_gauge: Gauge,
    waiting_gauge: Gauge,
}

#[derive(Debug)]
pub(super) struct Counted(Gauge);

impl Counted {
    pub(super) fn by(gauge: &Gauge) -> Self {
        gauge.increment(1.0);
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

/// Limits of the queue: wait time, and number of requests per repository and per client.
#[derive(Clone, Copy, Debug)]
struct QueueLimits {
    timeout: Duration,
    per_repository: usize,
    per_client: usize,
}

#[derive(Clone, Copy, Debug)]
enum Full {
    Client,
    Account,
    Repository,
    Store,
}

/// Key of the limits per client: the account, or the address for anonymous requests if the gateway
/// sent it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ClientKey {
    /// An account. A deploy key belongs to the user who added it, or else to the owner of the
    /// repository.
    User(i64),
    DeployKey(i64, String),
    /// Anonymous, address known.
    Address(String),
    /// Anonymous, address unknown. All such requests share one limit.
    Unknown,
    /// Another service, for the pull requests from a repository.
    Repository(RepositoryId),
}

impl ClientKey {
    /// Returns the key of a request. Trusts the client address header only if the caller is the
    /// gateway.
    pub(crate) fn of(caller: &Caller, grant: &Grant, headers: &HeaderMap) -> Self {
        if let Some(account) = grant.limited_account() {
            // Only grants for pushes name the credential. Without it, deploy keys share the permits
            // of their account.
            return match grant.reauthorization.as_ref().map(|access| &access.credential) {
                Some(Credential::Key(fingerprint)) if grant.user.is_none() => {
                    Self::DeployKey(account.0, fingerprint.clone())
                }
                _ => Self::User(account.0),
            };
        }
        let address = headers.get(metadata::CLIENT).and_then(|address| address.to_str().ok());
        match address.filter(|address| caller.is_gateway() && (1..=MAX_ADDRESS_BYTES).contains(&address.len())) {
            Some(address) => Self::Address(address.to_owned()),
            None => Self::Unknown,
        }
    }

    /// Returns the key that a client shares with its deploy keys.
    pub(super) fn with_deploy_keys(&self) -> Self {
        match self {
            Self::DeployKey(account, _) => Self::User(*account),
            other => other.clone(),
        }
    }
}

/// Semaphores of one key, dropped with the last permit or waiter.
#[derive(Debug)]
struct KeyedSemaphore {
    /// One permit per running request.
    running: Arc<Semaphore>,
    /// One permit per running or waiting request.
    queued: Arc<Semaphore>,
}

impl KeyedSemaphore {
    fn new(running: usize, waiting: usize) -> Self {
        let queued = Arc::new(Semaphore::new(running + waiting));
        Self { running: Arc::new(Semaphore::new(running)), queued }
    }
}

/// Permission to do one unit of work, such as running a process, until dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    _store: OwnedSemaphorePermit,
    _anonymous: Option<OwnedSemaphorePermit>,
    _running: [OwnedSemaphorePermit; 3],
    _queued: [OwnedSemaphorePermit; 4],
    _semaphores: [Arc<KeyedSemaphore>; 3],
    _counted: Counted,
}

impl Limiter {
    /// Creates a limiter with `store` permits. A repository may hold `per_repository` of them, a
    /// client half.
    pub(crate) fn new(name: &'static str, store: usize, per_repository: usize) -> Self {
        Self {
            name,
            waiting: QueueLimits { timeout: Duration::from_secs(30), per_repository: 32, per_client: 64 },
            permits: store,
            store: Arc::new(Semaphore::new(store)),
            anonymous: Arc::new(Semaphore::new(store)),
            // One repository never holds all permits, unless there is only one.
            per_repository: per_repository.min(store.saturating_sub(1)).max(1),
            repositories: WeakMap::default(),
            per_user: (store / 2).max(1),
            per_account: (store / 2).max(1),
            per_address: (store / 2).max(1),
            shares: WeakMap::default(),
            clients: WeakMap::default(),
            lines: WeakMap::default(),
            running_gauge: metrics::gauge!("ferrite_git_admission_running", "gate" => name),
            waiting_gauge: metrics::gauge!("ferrite_git_admission_waiting", "gate" => name),
        }
    }

    /// Waits for a permit.
    ///
    /// Fails with `ShareFull` if the client or repository has too many requests or gets no permit
    /// in time, and with `Overloaded` if the store has no free permit in time.
    pub(crate) async fn acquire(&self, id: RepositoryId, client: &ClientKey) -> Result<Permit, GitError> {
        self.wait(id, client).await.map_err(|full| self.refuse(full, client))
    }

    async fn wait(&self, id: RepositoryId, client: &ClientKey) -> Result<Permit, Full> {
        let (share, lines) = (self.share_of(client), &self.waiting);
        // A deploy key leaves half of the queue to its account.
        let waiting = match client {
            ClientKey::DeployKey(..) => lines.per_repository.div_ceil(4),
            ClientKey::User(_) | ClientKey::Address(_) | ClientKey::Unknown | ClientKey::Repository(_) => {
                lines.per_client
            }
        };
        let share = self.shares.get_or_insert_with(client.clone(), || KeyedSemaphore::new(share, waiting));
        let is_anonymous = matches!(client, ClientKey::Address(_) | ClientKey::Unknown);
        let client = client.with_deploy_keys();
        let running = self.account_share_of(&client);
        let line = self.lines.get_or_insert_with((id, client.clone()), || {
            Semaphore::new(running.min(self.per_repository) + lines.per_repository.div_ceil(2))
        });
        let of_repository = || KeyedSemaphore::new(self.per_repository, lines.per_repository);
        let repository = self.repositories.get_or_insert_with(id, of_repository);
        let client = self.clients.get_or_insert_with(client, || KeyedSemaphore::new(running, lines.per_client));
        let queued =
            [&share.queued, &line, &client.queued, &repository.queued].map(|all| Arc::clone(all).try_acquire_owned());
        let queued = match queued {
            [Ok(one), Ok(two), Ok(three), Ok(four)] => [one, two, three, four],
            [Ok(_), Ok(_), Ok(_), Err(_)] => return Err(Full::Repository),
            [Ok(_), ..] => return Err(Full::Account),
            [Err(_), ..] => return Err(Full::Client),
        };
        // In this order, so that a request waiting for its client or repository does not hold a
        // permit of the store.
        let mut full = Full::Client;
        let all = async {
            let share = Arc::clone(&share.running).acquire_owned().await?;
            full = Full::Account;
            let client = Arc::clone(&client.running).acquire_owned().await?;
            full = Full::Store;
            let anonymous = if is_anonymous { Some(Arc::clone(&self.anonymous).acquire_owned().await?) } else { None };
            full = Full::Repository;
            let repository = Arc::clone(&repository.running).acquire_owned().await?;
            full = Full::Store;
            let store = Arc::clone(&self.store).acquire_owned().await?;
            Ok::<_, AcquireError>(([share, client, repository], anonymous, store))
        };
        let waiting = Counted::by(&self.waiting_gauge);
        let acquired = tokio::time::timeout(self.waiting.timeout, all).await;
        drop(waiting);
        match acquired {
            Ok(Ok((running, anonymous, store))) => {
                let (semaphores, counted) = ([share.clone(), client, repository], Counted::by(&self.running_gauge));
                Ok(Permit {
                    _store: store,
                    _anonymous: anonymous,
                    _running: running,
                    _queued: queued,
                    _semaphores: semaphores,
                    _counted: counted,
                })
            }
            _ => Err(full),
        }
    }

    fn share_of(&self, client: &ClientKey) -> usize {
        match client {
            ClientKey::User(_) | ClientKey::DeployKey(..) => self.per_user,
            ClientKey::Address(_) | ClientKey::Unknown | ClientKey::Repository(_) => self.per_address,
        }
    }

    /// Returns the number of permits that the client may hold with all its deploy keys.
    fn account_share_of(&self, client: &ClientKey) -> usize {
        match client {
            ClientKey::User(_) | ClientKey::DeployKey(..) => self.per_account,
            ClientKey::Address(_) | ClientKey::Unknown | ClientKey::Repository(_) => self.per_address,
        }
    }

    pub(crate) fn running(&self) -> usize {
        self.permits.saturating_sub(self.store.available_permits())
    }

    /// Counts a rejected request and returns its error.
    fn refuse(&self, full: Full, client: &ClientKey) -> GitError {
        metrics::counter!("ferrite_git_refused_total", "gate" => self.name).increment(1);
        match (full, client) {
            (Full::Client, ClientKey::User(_)) => GitError::ShareFull { limit: self.per_user, holder: "account" },
            (Full::Client, ClientKey::DeployKey(..)) => {
                GitError::ShareFull { limit: self.per_user, holder: "deploy key" }
            }
            (Full::Account, ClientKey::User(_) | ClientKey::DeployKey(..)) => {
                GitError::ShareFull { limit: self.per_account, holder: "account" }
            }
            (Full::Client | Full::Account, ClientKey::Repository(_)) => {
                GitError::ShareFull { limit: self.per_address, holder: "repository" }
            }
            (Full::Client | Full::Account, _) => GitError::ShareFull { limit: self.per_address, holder: "address" },
            (Full::Repository, _) => GitError::ShareFull { limit: self.per_repository, holder: "repository" },
            (Full::Store, _) => GitError::Overloaded,
        }
    }
}

#[cfg(test)]
mod tests;
