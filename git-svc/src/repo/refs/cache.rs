//! Tables of refs that are kept, and kept true: every transaction that happened is applied to them, and whoever cannot say what a
//! transaction did makes them go. Not here: reading refs, and changing them.
//!
//! A table is what `Refs` knows, because nobody else writes to the store. `HEAD` and `packed-refs` are looked at all the same each time
//! a table is used: they show most of what a person does by hand.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use ferrite_proto::id::RepositoryId;
use moka::{policy::EvictionPolicy, sync::Cache};
use tokio::sync::OnceCell;

use super::table::{RefTable, Stamp, TableChange};
use crate::types::error::GitError;

/// After a transaction that nobody knows the end of, its process may live on for this long: what is read meanwhile is not kept.
const QUARANTINE: Duration = Duration::from_secs(5);

/// The tables.
pub(super) struct RefCache {
    ready: Cache<RepositoryId, Arc<RefTable>>,
    /// Repositories whose refs are being read, or are in unrest. Tables are put in place and changed under this lock only.
    states: Mutex<HashMap<RepositoryId, RepositoryState>>,
}

/// One reading of all refs, for everybody who asks while it lasts.
type SharedLoad = OnceCell<Arc<RefTable>>;

#[derive(Default)]
struct RepositoryState {
    /// Who waits for a flight.
    waiters: usize,
    load: Arc<SharedLoad>,
    /// Readings that are going on.
    loading: usize,
    /// What happened since the oldest of them began. A reading may have seen it or not.
    log: Vec<TableChange>,
    /// Counts what nobody can tell: a reading that saw another number is not kept.
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
    /// Tables of `bytes` in all; those that were not used for longest go first.
    pub(super) fn new(bytes: u64) -> Self {
        let weigher = |_: &RepositoryId, table: &Arc<RefTable>| u32::try_from(table.bytes() + 256).unwrap_or(u32::MAX);
        let ready =
            Cache::builder().max_capacity(bytes).weigher(weigher).eviction_policy(EvictionPolicy::lru()).build();
        Self { ready, states: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RepositoryId, RepositoryState>> {
        // Nothing panics while it is held that would leave a table half changed: tables are replaced as a whole.
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The table of a repository; `load` reads it if it is not here.
    pub(super) async fn table(
        &self,
        id: RepositoryId,
        path: &Path,
        load: impl Future<Output = Result<RefTable, GitError>>,
    ) -> Result<Arc<RefTable>, GitError> {
        if let Some(table) = self.get(id, path)? {
            return Ok(table);
        }
        let waiter = self.waiter(id);
        let table = waiter.load.get_or_try_init(|| self.load(id, &waiter.load, load)).await;
        table.cloned()
    }

    /// The table that is kept, unless the files have changed under it.
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
        let _live = self.lock();
        if self.ready.get(&id).is_some_and(|now| Arc::ptr_eq(&now, &table)) {
            self.ready.invalidate(&id);
        }
        Ok(None)
    }

    fn waiter(&self, id: RepositoryId) -> LoadWaiter<'_> {
        let mut states = self.lock();
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
        let mut states = self.lock();
        let entry = states.entry(id).or_default();
        table.apply(entry.log.get(guard.start..).unwrap_or_default());
        let table = Arc::new(table);
        if entry.generation == guard.generation && !entry.is_quarantined() {
            self.ready.insert(id, Arc::clone(&table));
        }
        if Arc::ptr_eq(&entry.load, shared) {
            // Whoever comes later may know of changes that are not in this one.
            entry.load = Arc::default();
        }
        drop(states);
        Ok(table)
    }

    fn load_guard(&self, id: RepositoryId) -> LoadGuard<'_> {
        let mut states = self.lock();
        let entry = states.entry(id).or_default();
        entry.loading += 1;
        LoadGuard { cache: self, id, start: entry.log.len(), generation: entry.generation }
    }

    /// Whether there is a table to change, or will be.
    pub(super) fn is_cached_or_loading(&self, id: RepositoryId) -> bool {
        let states = self.lock();
        states.get(&id).is_some_and(|entry| entry.loading > 0) || self.ready.contains_key(&id)
    }

    /// A transaction begins. The table goes unless somebody says how it ended.
    pub(super) fn begin_update(&self, id: RepositoryId) -> PendingUpdate<'_> {
        PendingUpdate { cache: self, id, has_outcome: false }
    }

    /// Drops the table, also that which is being read.
    pub(super) fn forget(&self, id: RepositoryId) {
        let mut states = self.lock();
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
        let mut states = self.lock();
        self.forget_in(&mut states, id);
        states.retain(|_, entry| !entry.is_idle());
        states.entry(id).or_default().quarantined_until = Some(Instant::now() + QUARANTINE);
    }

    fn apply(&self, id: RepositoryId, path: &Path, changes: Vec<TableChange>) {
        let mut states = self.lock();
        if let Some(table) = self.ready.get(&id) {
            let mut table = RefTable::clone(&table);
            table.apply(&changes);
            // Only to delete a ref is `packed-refs` written.
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
        let mut states = self.lock();
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

/// Somebody who waits for a flight.
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

/// A reading that is going on.
struct LoadGuard<'a> {
    cache: &'a RefCache,
    id: RepositoryId,
    /// Where its part of the log begins.
    start: usize,
    generation: u64,
}

impl Drop for LoadGuard<'_> {
    fn drop(&mut self) {
        self.cache.release(self.id, |entry| entry.loading -= 1);
    }
}

/// A transaction whose end is not known yet.
pub(super) struct PendingUpdate<'a> {
    cache: &'a RefCache,
    id: RepositoryId,
    has_outcome: bool,
}

impl PendingUpdate<'_> {
    /// It was refused as a whole.
    pub(super) fn rolled_back(mut self) {
        self.has_outcome = true;
    }

    /// All of it happened.
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
