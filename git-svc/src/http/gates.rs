//! How many git processes run at once, for the store and for each repository, and how long others wait.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use ferrite_proto::id::RepositoryId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::GitError;

/// How long a request waits for its turn.
const PATIENCE: Duration = Duration::from_secs(30);
/// Requests that may wait for one repository.
const WAITING: usize = 32;
/// Counts of repositories that nobody uses are looked for when there are this many.
const MANY: usize = 1024;

/// One gate per kind of process.
#[derive(Debug)]
pub(crate) struct Gates {
    /// Listing refs for a client: short.
    pub(crate) advertise: Gate,
    /// Making packs.
    pub(crate) fetch: Gate,
    /// Taking packs in.
    pub(crate) push: Gate,
    /// Reading large files.
    pub(crate) raw: Gate,
    /// Making archives.
    pub(crate) archive: Gate,
    /// Looking for the commits of a path.
    pub(crate) log: Gate,
}

impl Default for Gates {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            advertise: Gate::new("advertise", 4 * cores, 4 * cores),
            fetch: Gate::new("fetch", 2 * cores, 8),
            push: Gate::new("push", 2 * cores, 4),
            raw: Gate::new("raw", 8 * cores, 8),
            archive: Gate::new("archive", (cores / 2).max(1), 4),
            log: Gate::new("log", cores, 2),
        }
    }
}

/// A number of processes.
#[derive(Debug)]
pub(crate) struct Gate {
    name: &'static str,
    patience: Duration,
    store: Arc<Semaphore>,
    per_repository: usize,
    repositories: Mutex<HashMap<RepositoryId, Weak<Turnstile>>>,
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
    _running: OwnedSemaphorePermit,
    _inside: OwnedSemaphorePermit,
    _turnstile: Arc<Turnstile>,
}

impl Gate {
    fn new(name: &'static str, store: usize, per_repository: usize) -> Self {
        Self {
            name,
            patience: PATIENCE,
            store: Arc::new(Semaphore::new(store)),
            // One is always left for the others, however small the machine.
            per_repository: per_repository.min(store.saturating_sub(1)).max(1),
            repositories: Mutex::default(),
        }
    }

    /// Waits for a turn.
    ///
    /// Errors: `Overloaded` when too many wait already, or it takes too long.
    pub(crate) async fn enter(&self, id: RepositoryId) -> Result<Turn, GitError> {
        let turnstile = self.turnstile(id);
        let Ok(inside) = Arc::clone(&turnstile.inside).try_acquire_owned() else { return Err(self.refuse()) };
        let both = async {
            let running = Arc::clone(&turnstile.running).acquire_owned().await;
            (running, Arc::clone(&self.store).acquire_owned().await)
        };
        match tokio::time::timeout(self.patience, both).await {
            Ok((Ok(running), Ok(store))) => {
                Ok(Turn { _store: store, _running: running, _inside: inside, _turnstile: turnstile })
            }
            _ => Err(self.refuse()),
        }
    }

    fn refuse(&self) -> GitError {
        metrics::counter!("ferrite_git_refused_total", "gate" => self.name).increment(1);
        GitError::Overloaded
    }

    fn turnstile(&self, id: RepositoryId) -> Arc<Turnstile> {
        // Nothing panics while it is held.
        let mut repositories = self.repositories.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turnstile) = repositories.get(&id).and_then(Weak::upgrade) {
            return turnstile;
        }
        if repositories.len() >= MANY {
            repositories.retain(|_, turnstile| turnstile.strong_count() > 0);
        }
        let running = Arc::new(Semaphore::new(self.per_repository));
        let inside = Arc::new(Semaphore::new(self.per_repository + WAITING));
        let turnstile = Arc::new(Turnstile { running, inside });
        repositories.insert(id, Arc::downgrade(&turnstile));
        turnstile
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_repository_cannot_take_all_turns() {
        let gate = Gate { patience: Duration::from_millis(50), ..Gate::new("test", 3, 1) };
        let busy = gate.enter(RepositoryId(1)).await.unwrap();
        assert!(matches!(gate.enter(RepositoryId(1)).await, Err(GitError::Overloaded)));
        let other = gate.enter(RepositoryId(2)).await.unwrap();
        drop(busy);
        let again = gate.enter(RepositoryId(1)).await.unwrap();
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
        let busy = gate.enter(RepositoryId(1)).await.unwrap();
        let waiting: Vec<_> = (0..WAITING).map(|_| Box::pin(gate.enter(RepositoryId(1)))).collect();
        let mut all = futures_util::future::join_all(waiting);
        assert!(futures_util::poll!(&mut all).is_pending());
        let start = tokio::time::Instant::now();
        gate.enter(RepositoryId(1)).await.unwrap_err();
        assert!(start.elapsed() < Duration::from_secs(5));
        drop(busy);
    }
}
