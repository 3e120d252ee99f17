//! How many git processes run at once, for the store, for each repository and for each client, and how long others wait.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use ferrite_kit::auth::Caller;
use ferrite_proto::{grant::Grant, id::RepositoryId, metadata};
use http::HeaderMap;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use crate::{error::GitError, limits::GateArgs};

/// The longest address that tells one client from another.
const LONGEST: usize = 64;
/// Counts of repositories or clients that nobody uses are looked for when there are this many.
const MANY: usize = 1024;

/// One gate per kind of process.
#[derive(Debug)]
pub(crate) struct Gates {
    /// Listing refs for a client: short.
    pub(crate) advertise: Gate,
    /// Serving fetches: processes that mostly wait for their clients.
    pub(crate) fetch: Gate,
    /// Making packs.
    pub(crate) pack: Gate,
    /// Taking packs in.
    pub(crate) push: Gate,
    /// Reading large files.
    pub(crate) raw: Gate,
    /// Processes that speak with a client for as long as it likes; they need another turn while they work.
    pub(crate) session: Gate,
    /// Making archives.
    pub(crate) archive: Gate,
    /// Looking for the commits of a path.
    pub(crate) log: Gate,
}

impl Gates {
    /// As wide as the settings say, or the processor allows.
    pub(crate) fn new(limits: &GateArgs) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let waiting = Waiting {
            patience: limits.patience,
            per_repository: limits.waiting.into(),
            per_client: limits.waiting_per_client.into(),
        };
        let gate = |name, set: u16, usual, per_repository| {
            let store = if set == 0 { usual } else { usize::from(set) };
            Gate { waiting, ..Gate::new(name, store, per_repository) }
        };
        Self {
            advertise: gate("advertise", limits.advertisements, 4 * cores, usize::MAX),
            fetch: gate("fetch", limits.fetches, 64 * cores, limits.fetches_per_repository.into()),
            pack: gate("pack", limits.packs, cores.max(2), (cores / 2).max(2)),
            push: gate("push", limits.pushes, 2 * cores, limits.pushes_per_repository.into()),
            raw: gate("raw", limits.raw_files, 8 * cores, 8),
            session: gate("session", limits.sessions, 64 * cores, 32),
            archive: gate("archive", limits.archives, (cores / 2).max(1), 4),
            log: gate("log", limits.logs, cores, 2),
        }
    }
}

/// A number of processes.
#[derive(Debug)]
pub(crate) struct Gate {
    name: &'static str,
    waiting: Waiting,
    store: Arc<Semaphore>,
    per_repository: usize,
    repositories: Turnstiles<RepositoryId>,
    per_client: usize,
    clients: Turnstiles<Client>,
}

/// How many requests may wait, and for how long.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    patience: Duration,
    per_repository: usize,
    per_client: usize,
}

type Turnstiles<K> = Mutex<HashMap<K, Weak<Turnstile>>>;

/// Who wants a turn: accounts, and where there is none, addresses as far as the gateway tells them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Client {
    /// An account.
    User(i64),
    /// Nobody, from somewhere.
    Address(String),
    /// Nobody, from nowhere: all of them together.
    Nobody,
}

impl Client {
    /// Whose request it is. The header with the address counts only from processes of ours.
    pub(crate) fn of(caller: &Caller, grant: &Grant, headers: &HeaderMap) -> Self {
        if let Some(user) = grant.user_id() {
            return Self::User(user.0);
        }
        let address = headers.get(metadata::CLIENT).and_then(|address| address.to_str().ok());
        match address.filter(|address| caller.service.is_some() && (1..=LONGEST).contains(&address.len())) {
            Some(address) => Self::Address(address.to_owned()),
            None => Self::Nobody,
        }
    }
}

#[derive(Debug)]
struct Turnstile {
    running: Arc<Semaphore>,
    /// Those that run and those that wait.
    inside: Arc<Semaphore>,
}

/// The right to run one process, until dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    _store: OwnedSemaphorePermit,
    _running: [OwnedSemaphorePermit; 2],
    _inside: [OwnedSemaphorePermit; 2],
    _turnstiles: [Arc<Turnstile>; 2],
}

impl Gate {
    pub(super) fn new(name: &'static str, store: usize, per_repository: usize) -> Self {
        Self {
            name,
            waiting: Waiting { patience: Duration::from_secs(30), per_repository: 32, per_client: 64 },
            store: Arc::new(Semaphore::new(store)),
            // One is always left for the others, however small the machine.
            per_repository: per_repository.min(store.saturating_sub(1)).max(1),
            repositories: Mutex::default(),
            per_client: (store / 2).max(1),
            clients: Mutex::default(),
        }
    }

    /// Waits for a turn.
    ///
    /// Errors: `Overloaded` when too many wait already, or it takes too long.
    pub(crate) async fn enter(&self, id: RepositoryId, client: &Client) -> Result<Turn, GitError> {
        let repository = turnstile(&self.repositories, id, self.per_repository, self.waiting.per_repository);
        let client = turnstile(&self.clients, client.clone(), self.per_client, self.waiting.per_client);
        let inside =
            (Arc::clone(&client.inside).try_acquire_owned(), Arc::clone(&repository.inside).try_acquire_owned());
        let (Ok(one), Ok(two)) = inside else { return Err(self.refuse()) };
        // In this order: who waits for a turn of its own keeps nobody else from one.
        let all = async {
            let client = Arc::clone(&client.running).acquire_owned().await?;
            let repository = Arc::clone(&repository.running).acquire_owned().await?;
            Ok::<_, AcquireError>(([client, repository], Arc::clone(&self.store).acquire_owned().await?))
        };
        match tokio::time::timeout(self.waiting.patience, all).await {
            Ok(Ok((running, store))) => {
                let turnstiles = [client, repository];
                Ok(Turn { _store: store, _running: running, _inside: [one, two], _turnstiles: turnstiles })
            }
            _ => Err(self.refuse()),
        }
    }

    fn refuse(&self) -> GitError {
        metrics::counter!("ferrite_git_refused_total", "gate" => self.name).increment(1);
        GitError::Overloaded
    }
}

/// The turnstile of `key`, made if there is none.
fn turnstile<K: Eq + Hash>(all: &Turnstiles<K>, key: K, running: usize, waiting: usize) -> Arc<Turnstile> {
    // Nothing panics while it is held.
    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(turnstile) = all.get(&key).and_then(Weak::upgrade) {
        return turnstile;
    }
    if all.len() >= MANY {
        all.retain(|_, turnstile| turnstile.strong_count() > 0);
    }
    let inside = Arc::new(Semaphore::new(running + waiting));
    let turnstile = Arc::new(Turnstile { running: Arc::new(Semaphore::new(running)), inside });
    all.insert(key, Arc::downgrade(&turnstile));
    turnstile
}

#[cfg(test)]
mod tests {
    use super::*;

    fn impatient(store: usize, per_repository: usize) -> Gate {
        let mut gate = Gate::new("test", store, per_repository);
        gate.waiting.patience = Duration::from_millis(50);
        gate
    }

    #[tokio::test]
    async fn one_repository_cannot_take_all_turns() {
        let gate = impatient(3, 1);
        let busy = gate.enter(RepositoryId(1), &Client::User(1)).await.unwrap();
        assert!(matches!(gate.enter(RepositoryId(1), &Client::User(1)).await, Err(GitError::Overloaded)));
        let other = gate.enter(RepositoryId(2), &Client::User(2)).await.unwrap();
        drop(busy);
        let again = gate.enter(RepositoryId(1), &Client::User(1)).await.unwrap();
        drop((other, again));
    }

    #[test]
    fn no_gate_lets_one_repository_take_all_turns() {
        for store in 2..20 {
            assert!(Gate::new("test", store, 8).per_repository < store);
        }
        assert_eq!(Gate::new("test", 1, 8).per_repository, 1);
    }

    #[tokio::test]
    async fn too_many_that_wait_are_refused_at_once() {
        let gate = Gate::new("test", 1, 1);
        let busy = gate.enter(RepositoryId(1), &Client::User(1)).await.unwrap();
        let waiting: Vec<_> =
            (0..gate.waiting.per_repository).map(|_| Box::pin(gate.enter(RepositoryId(1), &Client::User(1)))).collect();
        let mut all = futures_util::future::join_all(waiting);
        assert!(futures_util::poll!(&mut all).is_pending());
        let start = tokio::time::Instant::now();
        gate.enter(RepositoryId(1), &Client::User(1)).await.unwrap_err();
        assert!(start.elapsed() < Duration::from_secs(5));
        drop(busy);
    }

    #[tokio::test]
    async fn one_client_cannot_take_all_turns() {
        let gate = impatient(4, 8);
        let (ada, anna) = (Client::User(1), Client::Address("192.0.2.1".to_owned()));
        for client in [&ada, &anna, &Client::Nobody] {
            let one = gate.enter(RepositoryId(1), client).await.unwrap();
            let two = gate.enter(RepositoryId(2), client).await.unwrap();
            assert!(matches!(gate.enter(RepositoryId(3), client).await, Err(GitError::Overloaded)));
            let other = gate.enter(RepositoryId(3), &Client::User(2)).await.unwrap();
            drop((one, two, other));
            gate.enter(RepositoryId(3), client).await.unwrap();
        }
    }

    #[test]
    fn addresses_count_from_our_own_processes_only() {
        let mut grant = Grant {
            user: None,
            repository: 1,
            operation: String::new(),
            permission: ferrite_proto::Permission::Read,
            issues_enabled: true,
            is_mirror: false,
            store: String::new(),
            epoch: 1,
        };
        let mut headers = HeaderMap::new();
        headers.insert(metadata::CLIENT, "192.0.2.1".parse().unwrap());
        let (stranger, gateway) =
            (Caller::default(), Caller { service: Some("gateway".to_owned()), ..Caller::default() });
        assert_eq!(Client::of(&stranger, &grant, &headers), Client::Nobody);
        assert_eq!(Client::of(&gateway, &grant, &headers), Client::Address("192.0.2.1".to_owned()));
        assert_eq!(Client::of(&gateway, &grant, &HeaderMap::new()), Client::Nobody);
        grant.user = Some(ferrite_proto::grant::GrantUser {
            id: 7,
            username: String::new(),
            full_name: String::new(),
            email: String::new(),
        });
        assert_eq!(Client::of(&gateway, &grant, &headers), Client::User(7));
    }
}
