//! A push, and the state its hooks share: `pre-receive` and `proc-receive` are separate processes,
//! whose requests are served one after the other.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::SystemTime,
};

use ferrite_core::writer::Writer;
use ferrite_proto::{grant::Grant, id::RepositoryId, repo::ReauthorizeAccessRequest};
use git_store::types::protection::Actor;
use git2::Oid;
use parking_lot::Mutex;

use crate::ref_updates::protection::PushedCommits;

/// Limit on the boundaries of a shallow clone kept for one push.
const MAX_SHALLOW_IDS: usize = 10_000;

#[derive(Clone, Debug)]
pub(crate) struct Push {
    pub(crate) repository: RepositoryId,
    pub(crate) actor: Actor,
    pub(crate) begun: SystemTime,
    /// Sent to repo-svc to check the user's access again before refs move. Absent in grants of an
    /// older repo-svc.
    pub(super) reauthorization: Option<ReauthorizeAccessRequest>,
    /// Account that the push writes for. Absent for a deploy key in grants of an older repo-svc.
    pub(super) writer: Option<Writer>,
    pub(super) state: Arc<PushState>,
}

impl Push {
    pub(crate) fn new(repository: RepositoryId, actor: Actor) -> Self {
        let state = Arc::default();
        Self { repository, actor, begun: SystemTime::now(), reauthorization: None, writer: None, state }
    }

    /// Creates a push that starts now, by the caller of a grant.
    pub(crate) fn of(repository: RepositoryId, grant: &Grant) -> Self {
        let access = grant.reauthorization.clone();
        let reauthorization = access.map(|access| access.request(grant.operation.clone()));
        Self { reauthorization, writer: Writer::of_grant(grant), ..Self::new(repository, Actor::of(grant)) }
    }

    pub(crate) fn state(&self) -> Arc<PushState> {
        Arc::clone(&self.state)
    }
}

/// State of one push, from its first command to its last ref.
#[derive(Debug, Default)]
pub(crate) struct PushState {
    is_atomic: AtomicBool,
    is_counted: AtomicBool,
    has_objects: AtomicBool,
    has_large_deltas: AtomicBool,
    /// Number of commands `pre-receive` has asked about.
    asked_commands: AtomicUsize,
    /// Commits of the client whose parents it does not have.
    shallow: Mutex<Vec<Oid>>,
    /// Reasons of a rejection in quarantine, by ref name.
    refusals: Mutex<HashMap<Vec<u8>, String>>,
    /// Its commits, and what is known about them.
    pub(super) commits: PushedCommits,
}

impl PushState {
    /// Returns whether the refs move together or not at all. git does not tell `pre-receive`.
    pub(super) fn is_atomic(&self) -> bool {
        self.is_atomic.load(Ordering::Relaxed)
    }

    pub(super) fn set_atomic(&self) {
        self.is_atomic.store(true, Ordering::Relaxed);
    }

    /// Returns whether the pack has a large delta. Hooks always get the final answer: the inspector
    /// records it before git gets the delta, and git runs no hook before it has the whole pack.
    pub(super) fn has_large_deltas(&self) -> bool {
        self.has_large_deltas.load(Ordering::Acquire)
    }

    pub(super) fn set_large_deltas(&self) {
        self.has_large_deltas.store(true, Ordering::Release);
    }

    /// Returns whether the push was counted as a write of its account.
    pub(super) fn is_counted(&self) -> bool {
        self.is_counted.load(Ordering::Relaxed)
    }

    pub(super) fn set_counted(&self) {
        self.is_counted.store(true, Ordering::Relaxed);
    }

    /// Returns whether the client sends a pack with objects.
    pub(super) fn has_objects(&self) -> bool {
        self.has_objects.load(Ordering::Relaxed)
    }

    pub(super) fn set_has_objects(&self) {
        self.has_objects.store(true, Ordering::Relaxed);
    }

    /// Returns the number of commands `pre-receive` has asked about. `proc-receive` gets those that
    /// git has not rejected.
    pub(super) fn asked_commands(&self) -> usize {
        self.asked_commands.load(Ordering::Relaxed)
    }

    pub(super) fn set_asked_commands(&self, count: usize) {
        self.asked_commands.store(count, Ordering::Relaxed);
    }

    /// Returns up to [`MAX_SHALLOW_IDS`] commits of the client whose parents it does not have.
    pub(super) fn shallow(&self) -> Vec<Oid> {
        self.shallow.lock().clone()
    }

    pub(super) fn add_shallow(&self, id: Oid) {
        let mut shallow = self.shallow.lock();
        if shallow.len() < MAX_SHALLOW_IDS {
            shallow.push(id);
        }
    }

    /// Returns why a ref was rejected in quarantine.
    pub(super) fn refusal(&self, name: &[u8]) -> Option<String> {
        self.refusals.lock().get(name).cloned()
    }

    /// Records why the refs of a push are rejected in quarantine.
    pub(super) fn set_refusals(&self, refusals: HashMap<Vec<u8>, String>) {
        *self.refusals.lock() = refusals;
    }
}
