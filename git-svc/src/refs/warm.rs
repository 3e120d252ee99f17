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

use super::table::{Change, Stamp, Table};
use crate::error::GitError;

/// After a transaction that nobody knows the end of, its process may live on for this long: what is read meanwhile is not kept.
const UNREST: Duration = Duration::from_secs(5);

/// The tables.
pub(super) struct Warm {
    ready: Cache<RepositoryId, Arc<Table>>,
    /// Repositories whose refs are being read, or are in unrest. Tables are put in place and changed under this lock only.
    live: Mutex<HashMap<RepositoryId, Live>>,
}

/// One reading of all refs, for everybody who asks while it lasts.
type Flight = OnceCell<Arc<Table>>;

#[derive(Default)]
struct Live {
    /// Who waits for a flight.
    users: usize,
    flight: Arc<Flight>,
    /// Readings that are going on.
    loading: usize,
    /// What happened since the oldest of them began. A reading may have seen it or not.
    log: Vec<Change>,
    /// Counts what nobody can tell: a reading that saw another number is not kept.
    generation: u64,
    unrest_until: Option<Instant>,
}

impl Live {
    fn is_in_unrest(&self) -> bool {
        self.unrest_until.is_some_and(|until| Instant::now() < until)
    }

    fn is_idle(&self) -> bool {
        self.users == 0 && self.loading == 0 && !self.is_in_unrest()
    }
}

impl Warm {
    /// Tables of `bytes` in all; those that were not used for longest go first.
    pub(super) fn new(bytes: u64) -> Self {
        let weigher = |_: &RepositoryId, table: &Arc<Table>| u32::try_from(table.bytes() + 256).unwrap_or(u32::MAX);
        let ready =
            Cache::builder().max_capacity(bytes).weigher(weigher).eviction_policy(EvictionPolicy::lru()).build();
        Self { ready, live: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RepositoryId, Live>> {
        // Nothing panics while it is held that would leave a table half changed: tables are replaced as a whole.
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The table of a repository; `load` reads it if it is not here.
    pub(super) async fn table(
        &self,
        id: RepositoryId,
        path: &Path,
        load: impl Future<Output = Result<Table, GitError>>,
    ) -> Result<Arc<Table>, GitError> {
        if let Some(table) = self.get(id, path)? {
            return Ok(table);
        }
        let user = self.user(id);
        let table = user.flight.get_or_try_init(|| self.load(id, &user.flight, load)).await;
        table.cloned()
    }

    /// The table that is kept, unless the files have changed under it.
    fn get(&self, id: RepositoryId, path: &Path) -> Result<Option<Arc<Table>>, GitError> {
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

    fn user(&self, id: RepositoryId) -> User<'_> {
        let mut live = self.lock();
        let entry = live.entry(id).or_default();
        entry.users += 1;
        User { warm: self, id, flight: Arc::clone(&entry.flight) }
    }

    async fn load(
        &self,
        id: RepositoryId,
        flight: &Arc<Flight>,
        load: impl Future<Output = Result<Table, GitError>>,
    ) -> Result<Arc<Table>, GitError> {
        let reading = self.reading(id);
        let mut table = load.await?;
        metrics::counter!("ferrite_git_ref_tables_loaded_total").increment(1);
        let mut live = self.lock();
        let entry = live.entry(id).or_default();
        table.apply(entry.log.get(reading.start..).unwrap_or_default());
        let table = Arc::new(table);
        if entry.generation == reading.generation && !entry.is_in_unrest() {
            self.ready.insert(id, Arc::clone(&table));
        }
        if Arc::ptr_eq(&entry.flight, flight) {
            // Whoever comes later may know of changes that are not in this one.
            entry.flight = Arc::default();
        }
        drop(live);
        Ok(table)
    }

    fn reading(&self, id: RepositoryId) -> Reading<'_> {
        let mut live = self.lock();
        let entry = live.entry(id).or_default();
        entry.loading += 1;
        Reading { warm: self, id, start: entry.log.len(), generation: entry.generation }
    }

    /// Whether there is a table to change, or will be.
    pub(super) fn is_wanted(&self, id: RepositoryId) -> bool {
        let live = self.lock();
        live.get(&id).is_some_and(|entry| entry.loading > 0) || self.ready.contains_key(&id)
    }

    /// A transaction begins. The table goes unless somebody says how it ended.
    pub(super) fn doubt(&self, id: RepositoryId) -> Doubt<'_> {
        Doubt { warm: self, id, is_settled: false }
    }

    /// Drops the table, also that which is being read.
    pub(super) fn forget(&self, id: RepositoryId) {
        let mut live = self.lock();
        self.forget_in(&mut live, id);
    }

    fn forget_in(&self, live: &mut HashMap<RepositoryId, Live>, id: RepositoryId) {
        self.ready.invalidate(&id);
        if let Some(entry) = live.get_mut(&id) {
            entry.generation += 1;
            entry.flight = Arc::default();
        }
    }

    fn unsettle(&self, id: RepositoryId) {
        let mut live = self.lock();
        self.forget_in(&mut live, id);
        live.retain(|_, entry| !entry.is_idle());
        live.entry(id).or_default().unrest_until = Some(Instant::now() + UNREST);
    }

    fn change(&self, id: RepositoryId, path: &Path, changes: Vec<Change>) {
        let mut live = self.lock();
        if let Some(table) = self.ready.get(&id) {
            let mut table = Table::clone(&table);
            table.apply(&changes);
            // Only to delete a ref is `packed-refs` written.
            let has_deleted = changes.iter().any(|change| matches!(change, Change::Gone(_)));
            match has_deleted.then(|| Stamp::of(path)) {
                None => self.ready.insert(id, Arc::new(table)),
                Some(Ok(stamp)) => {
                    table.stamp.packed = stamp.packed;
                    self.ready.insert(id, Arc::new(table));
                }
                Some(Err(_)) => self.ready.invalidate(&id),
            }
        }
        if let Some(entry) = live.get_mut(&id).filter(|entry| entry.loading > 0) {
            entry.log.extend(changes);
        }
    }

    fn leave(&self, id: RepositoryId, leave: impl FnOnce(&mut Live)) {
        let mut live = self.lock();
        if let Some(entry) = live.get_mut(&id) {
            leave(entry);
            if entry.loading == 0 {
                entry.log.clear();
            }
            if entry.is_idle() {
                live.remove(&id);
            }
        }
    }
}

/// Somebody who waits for a flight.
struct User<'a> {
    warm: &'a Warm,
    id: RepositoryId,
    flight: Arc<Flight>,
}

impl Drop for User<'_> {
    fn drop(&mut self) {
        self.warm.leave(self.id, |entry| entry.users -= 1);
    }
}

/// A reading that is going on.
struct Reading<'a> {
    warm: &'a Warm,
    id: RepositoryId,
    /// Where its part of the log begins.
    start: usize,
    generation: u64,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.warm.leave(self.id, |entry| entry.loading -= 1);
    }
}

/// A transaction whose end is not known yet.
pub(super) struct Doubt<'a> {
    warm: &'a Warm,
    id: RepositoryId,
    is_settled: bool,
}

impl Doubt<'_> {
    /// It was refused as a whole.
    pub(super) fn nothing_happened(mut self) {
        self.is_settled = true;
    }

    /// All of it happened.
    pub(super) fn happened(mut self, path: &Path, changes: Vec<Change>) {
        self.warm.change(self.id, path, changes);
        self.is_settled = true;
    }
}

impl Drop for Doubt<'_> {
    fn drop(&mut self) {
        if !self.is_settled {
            self.warm.unsettle(self.id);
        }
    }
}

#[cfg(test)]
#[path = "warm_tests.rs"]
mod tests;
