//! Packs and loose objects waiting for consolidation, by repository. Decides which repository comes
//! next, and how long writers wait if it has far too many.
//!
//! Only repositories with a running write, or with enough to consolidate, are in memory.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use ferrite_proto::id::RepositoryId;
use git_store::disk::usage::DiskUsage;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, futures::OwnedNotified},
    time::Instant,
};

/// Writes wait while a repository has more recent packs or loose objects than this. A running write
/// counts as one pack and as some objects.
const MAX_RECENT_PACKS: u64 = 32;
const MAX_LOOSE_OBJECTS: u64 = 2000;
const OBJECTS_PER_WRITE: u64 = 8;
const MAX_WRITE_WAIT: Duration = Duration::from_secs(5);
/// Minimum time between two consolidations of one repository: after one that combined something,
/// and after one that did not.
const CONSOLIDATION_INTERVAL: Duration = Duration::from_millis(200);
const IDLE_CONSOLIDATION_INTERVAL: Duration = Duration::from_secs(2);
/// Delay after a failed consolidation. Doubles with each further failure.
const RETRY_DELAY: Duration = Duration::from_secs(5);
const MAX_RETRY_DOUBLINGS: u32 = 8;
/// Repositories in memory. Further ones are consolidated when maintenance looks for due
/// repositories.
const MAX_REPOSITORIES: usize = 10_000;

/// Thresholds for a consolidation; 0 disables one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConsolidationLimits {
    pub(crate) packs: u64,
    pub(crate) loose: u64,
}

/// Repositories waiting for consolidation. Clones share everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Backlogs(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limits: ConsolidationLimits,
    max_write_wait: Duration,
    state: Mutex<State>,
    /// Notified when a repository may be due.
    changed: Notify,
    bases_changed: Notify,
}

impl Default for Inner {
    fn default() -> Self {
        let (state, changed, bases_changed) = (Mutex::default(), Notify::new(), Notify::new());
        Self { limits: ConsolidationLimits::default(), max_write_wait: MAX_WRITE_WAIT, state, changed, bases_changed }
    }
}

#[derive(Debug, Default)]
struct State {
    repositories: HashMap<RepositoryId, Backlog>,
    /// Repositories consolidated while others waited. The others come first.
    served: HashSet<RepositoryId>,
    /// Repositories whose base is due for a rebuild, oldest first.
    bases: VecDeque<RepositoryId>,
}

#[derive(Debug)]
struct Backlog {
    packs: u64,
    loose: u64,
    writes: u64,
    is_running: bool,
    failures: u32,
    not_before: Instant,
    /// Wakes waiting writes.
    released: Arc<Notify>,
}

/// Permission to write to a repository, held until the write ends.
#[derive(Debug)]
pub(crate) struct WriteAdmission {
    admitted: Option<(Backlogs, RepositoryId)>,
}

impl Backlog {
    fn new() -> Self {
        let (not_before, released) = (Instant::now(), Arc::default());
        Self { packs: 0, loose: 0, writes: 0, is_running: false, failures: 0, not_before, released }
    }

    /// Urgency in thousandths of the limits. A consolidation is due at 1000.
    fn need(&self, limits: ConsolidationLimits) -> u64 {
        let share = |value: u64, limit: u64| value.saturating_mul(1000).checked_div(limit).unwrap_or(0);
        share(self.packs, limits.packs).max(share(self.loose, limits.loose))
    }

    /// Returns whether writes have to wait. They never wait while consolidations fail.
    fn is_full(&self, limits: ConsolidationLimits) -> bool {
        // Limits set above the bounds raise the bounds.
        let is_above = |value, limit: u64, bound: u64| limit > 0 && value >= bound.max(2 * limit);
        self.failures == 0
            && (is_above(self.packs + self.writes, limits.packs, MAX_RECENT_PACKS)
                || is_above(self.loose + self.writes * OBJECTS_PER_WRITE, limits.loose, MAX_LOOSE_OBJECTS))
    }
}

impl Backlogs {
    /// Creates backlogs that consolidate once `limits` are reached.
    pub(crate) fn new(limits: ConsolidationLimits) -> Self {
        Self(Arc::new(Inner { limits, ..Inner::default() }))
    }

    fn is_off(&self) -> bool {
        self.0.limits == ConsolidationLimits::default()
    }

    pub(crate) fn record(&self, id: RepositoryId, usage: &DiskUsage) {
        if self.is_off() {
            return;
        }
        let mut state = self.0.state.lock();
        let has_room = state.repositories.len() < MAX_REPOSITORIES;
        let measured = Backlog { packs: usage.recent.packs, loose: usage.loose, ..Backlog::new() };
        if let Some(backlog) = state.repositories.get_mut(&id) {
            (backlog.packs, backlog.loose) = (measured.packs, measured.loose);
        } else if has_room && measured.need(self.0.limits) >= 1000 {
            state.repositories.insert(id, measured);
        }
        let is_due = state.repositories.get(&id).is_some_and(|backlog| backlog.need(self.0.limits) >= 1000);
        drop(state);
        if is_due {
            self.0.changed.notify_one();
        }
    }

    /// Admits a write at once, or after a wait of at most 5 seconds if the repository has too much
    /// to consolidate.
    pub(crate) async fn admit(&self, id: RepositoryId) -> WriteAdmission {
        if self.is_off() {
            return WriteAdmission { admitted: None };
        }
        let start = Instant::now();
        let mut outcome = None;
        loop {
            let released = match self.try_admit(id, outcome == Some("timed_out")) {
                Ok(admission) => {
                    if let Some(outcome) = outcome {
                        metrics::counter!("ferrite_git_write_waits_total", "outcome" => outcome).increment(1);
                        metrics::histogram!("ferrite_git_write_wait_seconds").record(start.elapsed());
                    }
                    return admission;
                }
                Err(released) => released,
            };
            let woken = tokio::time::timeout_at(start + self.0.max_write_wait, released).await;
            outcome = Some(if woken.is_ok() { "admitted" } else { "timed_out" });
        }
    }

    /// Admits a write, or returns the notification to wait for before the next try.
    fn try_admit(&self, id: RepositoryId, is_forced: bool) -> Result<WriteAdmission, OwnedNotified> {
        let mut state = self.0.state.lock();
        if !state.repositories.contains_key(&id) && state.repositories.len() >= MAX_REPOSITORIES {
            return Ok(WriteAdmission { admitted: None });
        }
        let backlog = state.repositories.entry(id).or_insert_with(Backlog::new);
        if backlog.is_full(self.0.limits) && !is_forced {
            return Err(Arc::clone(&backlog.released).notified_owned());
        }
        backlog.writes += 1;
        drop(state);
        Ok(WriteAdmission { admitted: Some((self.clone(), id)) })
    }

    /// Waits for the repository to consolidate next, and marks it as running until
    /// [`Backlogs::consolidated`]. The fullest comes first, but never twice while another waits.
    pub(crate) async fn next(&self) -> RepositoryId {
        loop {
            let changed = self.0.changed.notified();
            match self.try_next() {
                Ok(id) => return id,
                Err(Some(at)) => drop(tokio::time::timeout_at(at, changed).await),
                Err(None) => changed.await,
            }
        }
    }

    /// Returns the next repository, or the time when one becomes due.
    fn try_next(&self) -> Result<RepositoryId, Option<Instant>> {
        let (mut state, now, limits) = (self.0.state.lock(), Instant::now(), self.0.limits);
        let State { repositories, served, .. } = &mut *state;
        let needy = || repositories.iter().filter(|(_, backlog)| !backlog.is_running && backlog.need(limits) >= 1000);
        let (mut due, mut waiting, mut later) = (None, 0_u32, None);
        for (id, backlog) in needy() {
            if backlog.not_before > now {
                later = Some(later.map_or(backlog.not_before, |at: Instant| at.min(backlog.not_before)));
                continue;
            }
            waiting += 1;
            let rank = (!served.contains(id), backlog.need(limits));
            if due.is_none_or(|(best, _)| rank > best) {
                due = Some((rank, *id));
            }
        }
        metrics::gauge!("ferrite_git_consolidation_queue").set(f64::from(waiting));
        let Some(((is_new, _), id)) = due else { return Err(later) };
        if !is_new {
            // All waiting repositories had their turn.
            served.clear();
        }
        if waiting > 1 {
            served.insert(id);
        }
        if let Some(backlog) = repositories.get_mut(&id) {
            backlog.is_running = true;
        }
        if waiting > 1 {
            // For the other workers.
            self.0.changed.notify_one();
        }
        Ok(id)
    }

    /// Records the end of a consolidation: the remaining usage and whether anything was combined;
    /// `None` if it failed.
    pub(crate) fn consolidated(&self, id: RepositoryId, outcome: Option<(&DiskUsage, bool)>) {
        let mut state = self.0.state.lock();
        let State { repositories, bases, .. } = &mut *state;
        let Some(backlog) = repositories.get_mut(&id) else { return };
        backlog.is_running = false;
        let pause = match outcome {
            Some((usage, has_combined)) => {
                (backlog.packs, backlog.loose, backlog.failures) = (usage.recent.packs, usage.loose, 0);
                if usage.has_outgrown_base() && !bases.contains(&id) && bases.len() < MAX_REPOSITORIES {
                    bases.push_back(id);
                    self.0.bases_changed.notify_one();
                }
                if has_combined { CONSOLIDATION_INTERVAL } else { IDLE_CONSOLIDATION_INTERVAL }
            }
            None => {
                backlog.failures = backlog.failures.saturating_add(1);
                RETRY_DELAY * (1 << backlog.failures.min(MAX_RETRY_DOUBLINGS))
            }
        };
        backlog.not_before = Instant::now() + pause;
        backlog.released.notify_waiters();
        self.drop_if_idle(&mut state, id);
        drop(state);
        self.0.changed.notify_one();
    }

    /// Postpones a consolidation because the repository already has one running.
    pub(crate) fn postpone(&self, id: RepositoryId) {
        if let Some(backlog) = self.0.state.lock().repositories.get_mut(&id) {
            backlog.is_running = false;
            backlog.not_before = Instant::now() + CONSOLIDATION_INTERVAL;
        }
        self.0.changed.notify_one();
    }

    /// Waits for the next repository whose base is due for a rebuild.
    pub(crate) async fn next_base(&self) -> RepositoryId {
        loop {
            let changed = self.0.bases_changed.notified();
            if let Some(id) = self.0.state.lock().bases.pop_front() {
                return id;
            }
            changed.await;
        }
    }

    /// Drops the backlog of a deleted repository. Its running writes go on, and fail.
    pub(crate) fn forget(&self, id: RepositoryId) {
        let mut state = self.0.state.lock();
        if let Some(backlog) = state.repositories.remove(&id) {
            backlog.released.notify_waiters();
        }
        state.served.remove(&id);
        state.bases.retain(|base| *base != id);
    }

    fn drop_if_idle(&self, state: &mut State, id: RepositoryId) {
        let limits = self.0.limits;
        let is_idle = |backlog: &Backlog| !backlog.is_running && backlog.writes == 0 && backlog.need(limits) < 1000;
        if state.repositories.get(&id).is_some_and(is_idle) {
            state.repositories.remove(&id);
            state.served.remove(&id);
        }
    }
}

impl Drop for WriteAdmission {
    fn drop(&mut self) {
        let Some((backlogs, id)) = self.admitted.take() else { return };
        let mut state = backlogs.0.state.lock();
        if let Some(backlog) = state.repositories.get_mut(&id) {
            backlog.writes = backlog.writes.saturating_sub(1);
            backlog.released.notify_waiters();
        }
        backlogs.drop_if_idle(&mut state, id);
    }
}

#[cfg(test)]
mod tests;
