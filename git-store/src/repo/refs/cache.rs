//! Caches ref tables. A committed transaction updates the cached table; one with an unknown result
//! drops it.
//!
//! Only `Refs` writes refs, so cached tables are up to date. Each use still compares file stamps of
//! `HEAD` and `packed-refs`, which detects most manual changes.

use std::{
    collections::HashMap,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use ferrite_proto::id::RepositoryId;
use moka::{policy::EvictionPolicy, sync::Cache};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::table::{RefTable, Stamp, TableChange};
use crate::types::error::GitError;

/// How long a `git update-ref` process may outlive a transaction with an unknown result. Tables
/// read within this time are not cached.
const QUARANTINE: Duration = Duration::from_secs(5);

pub(super) struct RefCache {
    ready: Cache<RepositoryId, Arc<RefTable>>,
    /// Repositories being loaded or in quarantine. Tables change only under this lock.
    states: Mutex<HashMap<RepositoryId, RepositoryState>>,
}

/// A load of all refs, shared by requests that arrive during it.
type SharedLoad = OnceCell<Arc<RefTable>>;

#[derive(Default)]
struct RepositoryState {
    waiters: usize,
    load: Arc<SharedLoad>,
    loading: usize,
    /// Changes committed since the oldest running load began. A load may have missed them, so they
    /// are applied to its result.
    log: Vec<TableChange>,
    /// Incremented when the table is dropped, so that the result of an older load is not cached.
    generation: u64,
    quarantined_until: Option<Instant>,
}

impl RepositoryState {
    fn is_quarantined(&self) -> bool {
        self.quarantined_until.is_some_and(|until| Instant::now() < until)
    }

    fn is_idle(&self) -> bool {
        self.waiters == 0 && self.loading == 0 && !self.is_quarantined()
    }
}

impl RefCache {
    /// Creates a cache of `bytes` in total, which evicts the least recently used tables.
    pub(super) fn new(bytes: u64) -> Self {
        let weigher = |_: &RepositoryId, table: &Arc<RefTable>| u32::try_from(table.bytes() + 256).unwrap_or(u32::MAX);
        let ready =
            Cache::builder().max_capacity(bytes).weigher(weigher).eviction_policy(EvictionPolicy::lru()).build();
        Self { ready, states: Mutex::default() }
    }

    /// Returns the table of a repository: cached, from a running load, or from `load`.
    pub(super) async fn table(
        &self,
        id: RepositoryId,
        path: &Path,
        load: impl Future<Output = Result<RefTable, GitError>>,
    ) -> Result<Arc<RefTable>, GitError> {
        if let Some(table) = self.get(id, path)? {
            metrics::counter!("ferrite_git_ref_table_lookups_total", "result" => "hit").increment(1);
            return Ok(table);
        }
        metrics::counter!("ferrite_git_ref_table_lookups_total", "result" => "miss").increment(1);
        let waiter = self.waiter(id);
        let table = waiter.load.get_or_try_init(|| self.load(id, &waiter.load, load)).await;
        table.cloned()
    }

    /// Returns the cached table, unless its file stamps have changed.
    fn get(&self, id: RepositoryId, path: &Path) -> Result<Option<Arc<RefTable>>, GitError> {
        let stamp = Stamp::of(path).map_err(GitError::io("looking at refs"))?;
        if stamp.head.is_none() {
            self.forget(id);
            return Err(GitError::RepositoryNotFound);
        }
        let Some(table) = self.ready.get(&id) else { return Ok(None) };
        if table.stamp == stamp {
            return Ok(Some(table));
        }
        let _live = self.states.lock();
        if self.ready.get(&id).is_some_and(|now| Arc::ptr_eq(&now, &table)) {
            self.ready.invalidate(&id);
        }
        Ok(None)
    }

    fn waiter(&self, id: RepositoryId) -> LoadWaiter<'_> {
        let mut states = self.states.lock();
        let entry = states.entry(id).or_default();
        entry.waiters += 1;
        LoadWaiter { cache: self, id, load: Arc::clone(&entry.load) }
    }

    async fn load(
        &self,
        id: RepositoryId,
        shared: &Arc<SharedLoad>,
        load: impl Future<Output = Result<RefTable, GitError>>,
    ) -> Result<Arc<RefTable>, GitError> {
        let guard = self.load_guard(id);
        let mut table = load.await?;
        metrics::counter!("ferrite_git_ref_tables_loaded_total").increment(1);
        let mut states = self.states.lock();
        let entry = states.entry(id).or_default();
        table.apply(entry.log.get(guard.start..).unwrap_or_default());
        let table = Arc::new(table);
        if entry.generation == guard.generation && !entry.is_quarantined() {
            self.ready.insert(id, Arc::clone(&table));
        }
        if Arc::ptr_eq(&entry.load, shared) {
            // Later requests start a new load: they may follow changes that this table lacks.
            entry.load = Arc::default();
        }
        drop(states);
        Ok(table)
    }

    fn load_guard(&self, id: RepositoryId) -> LoadGuard<'_> {
        let mut states = self.states.lock();
        let entry = states.entry(id).or_default();
        entry.loading += 1;
        LoadGuard { cache: self, id, start: entry.log.len(), generation: entry.generation }
    }

    /// Returns whether transactions must report changes: the table is cached or being loaded.
    pub(super) fn is_cached_or_loading(&self, id: RepositoryId) -> bool {
        let states = self.states.lock();
        states.get(&id).is_some_and(|entry| entry.loading > 0) || self.ready.contains_key(&id)
    }

    /// Starts a transaction. Dropping the guard without a result drops the table.
    pub(super) fn begin_update(&self, id: RepositoryId) -> PendingUpdate<'_> {
        PendingUpdate { cache: self, id, has_outcome: false }
    }

    /// Drops the table, and the result of a running load.
    pub(super) fn forget(&self, id: RepositoryId) {
        let mut states = self.states.lock();
        self.forget_in(&mut states, id);
    }

    fn forget_in(&self, states: &mut HashMap<RepositoryId, RepositoryState>, id: RepositoryId) {
        self.ready.invalidate(&id);
        if let Some(entry) = states.get_mut(&id) {
            entry.generation += 1;
            entry.load = Arc::default();
        }
    }

    fn quarantine(&self, id: RepositoryId) {
        let mut states = self.states.lock();
        self.forget_in(&mut states, id);
        states.retain(|_, entry| !entry.is_idle());
        states.entry(id).or_default().quarantined_until = Some(Instant::now() + QUARANTINE);
    }

    fn apply(&self, id: RepositoryId, path: &Path, changes: Vec<TableChange>) {
        let mut states = self.states.lock();
        if let Some(table) = self.ready.get(&id) {
            let mut table = RefTable::clone(&table);
            table.apply(&changes);
            // git rewrites `packed-refs` only when it deletes refs.
            let has_deleted = changes.iter().any(|change| matches!(change, TableChange::Removed(_)));
            match has_deleted.then(|| Stamp::of(path)) {
                None => self.ready.insert(id, Arc::new(table)),
                Some(Ok(stamp)) => {
                    table.stamp.packed = stamp.packed;
                    self.ready.insert(id, Arc::new(table));
                }
                Some(Err(_)) => self.ready.invalidate(&id),
            }
        }
        if let Some(entry) = states.get_mut(&id).filter(|entry| entry.loading > 0) {
            entry.log.extend(changes);
        }
    }

    fn release(&self, id: RepositoryId, release: impl FnOnce(&mut RepositoryState)) {
        let mut states = self.states.lock();
        if let Some(entry) = states.get_mut(&id) {
            release(entry);
            if entry.loading == 0 {
                entry.log.clear();
            }
            if entry.is_idle() {
                states.remove(&id);
            }
        }
    }
}

struct LoadWaiter<'a> {
    cache: &'a RefCache,
    id: RepositoryId,
    load: Arc<SharedLoad>,
}

impl Drop for LoadWaiter<'_> {
    fn drop(&mut self) {
        self.cache.release(self.id, |entry| entry.waiters -= 1);
    }
}

struct LoadGuard<'a> {
    cache: &'a RefCache,
    id: RepositoryId,
    /// Length of the log when the load started. Later changes are applied to its table.
    start: usize,
    generation: u64,
}

impl Drop for LoadGuard<'_> {
    fn drop(&mut self) {
        self.cache.release(self.id, |entry| entry.loading -= 1);
    }
}

/// A transaction without a result. Dropping it puts the repository into quarantine.
pub(super) struct PendingUpdate<'a> {
    cache: &'a RefCache,
    id: RepositoryId,
    has_outcome: bool,
}

impl PendingUpdate<'_> {
    pub(super) fn rolled_back(mut self) {
        self.has_outcome = true;
    }

    /// The transaction was committed: applies its changes to the table.
    pub(super) fn committed(mut self, path: &Path, changes: Vec<TableChange>) {
        self.cache.apply(self.id, path, changes);
        self.has_outcome = true;
    }
}

impl Drop for PendingUpdate<'_> {
    fn drop(&mut self) {
        if !self.has_outcome {
            self.cache.quarantine(self.id);
        }
    }
}

#[cfg(test)]
mod tests;
