//! A push, and what its hooks share: `pre-receive` and `proc-receive` are processes of their own, whose requests are served one after
//! the other. Not here: the register of running pushes (`sessions`).

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

/// Most boundaries of a shallow clone that are kept of one push.
const MAX_SHALLOW_IDS: usize = 10_000;

/// Repository and user of one push.
#[derive(Clone, Debug)]
pub(crate) struct Push {
    /// Repository that is pushed to.
    pub(crate) repository: RepositoryId,
    /// User who pushes, with their permission.
    pub(crate) actor: Actor,
    /// Start time.
    pub(crate) begun: SystemTime,
    /// The access of the user, about which repo-svc is asked again before refs move. Absent in grants of an older repo-svc.
    pub(super) reauthorization: Option<ReauthorizeAccessRequest>,
    /// The account that the push writes for. Absent for a deploy key in grants of an older repo-svc.
    pub(super) writer: Option<Writer>,
    /// What its hooks share.
    pub(super) state: Arc<PushState>,
}

impl Push {
    /// Returns a push that begins now.
    pub(crate) fn new(repository: RepositoryId, actor: Actor) -> Self {
        let state = Arc::default();
        Self { repository, actor, begun: SystemTime::now(), reauthorization: None, writer: None, state }
    }

    /// Returns a push that begins now, by the caller of a grant.
    pub(crate) fn of(repository: RepositoryId, grant: &Grant) -> Self {
        let access = grant.reauthorization.clone();
        let reauthorization = access.map(|access| access.request(grant.operation.clone()));
        Self { reauthorization, writer: Writer::of_grant(grant), ..Self::new(repository, Actor::of(grant)) }
    }

    /// Returns what the hooks of the push share.
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
    /// Commands that `pre-receive` has asked about.
    asked_commands: AtomicUsize,
    /// Commits of the client whose parents it does not have.
    shallow: Mutex<Vec<Oid>>,
    /// Reasons of a rejection in quarantine, by the names of the refs.
    refusals: Mutex<HashMap<Vec<u8>, String>>,
    /// Its commits, and what is known of them.
    pub(super) commits: PushedCommits,
}

impl PushState {
    /// Returns whether either all refs of the push move or none. git does not tell `pre-receive`.
    pub(super) fn is_atomic(&self) -> bool {
        self.is_atomic.load(Ordering::Relaxed)
    }

    /// Notes that either all refs of the push move or none.
    pub(super) fn set_atomic(&self) {
        self.is_atomic.store(true, Ordering::Relaxed);
    }

    /// Returns whether the pack of the push has a large delta. Whoever asks for a hook knows it for the whole pack: the inspector notes it
    /// before git gets the delta, and git runs no hook before it has the whole pack.
    pub(super) fn has_large_deltas(&self) -> bool {
        self.has_large_deltas.load(Ordering::Acquire)
    }

    /// Notes that the pack of the push has a large delta.
    pub(super) fn set_large_deltas(&self) {
        self.has_large_deltas.store(true, Ordering::Release);
    }

    /// Returns whether the push counts as a write of its account already.
    pub(super) fn is_counted(&self) -> bool {
        self.is_counted.load(Ordering::Relaxed)
    }

    /// Notes that the push counts as a write of its account.
    pub(super) fn set_counted(&self) {
        self.is_counted.store(true, Ordering::Relaxed);
    }

    /// Returns whether the client sends a pack with objects.
    pub(super) fn has_objects(&self) -> bool {
        self.has_objects.load(Ordering::Relaxed)
    }

    /// Notes that the client sends a pack with objects.
    pub(super) fn set_has_objects(&self) {
        self.has_objects.store(true, Ordering::Relaxed);
    }

    /// Returns the number of commands that `pre-receive` has asked about. `proc-receive` gets those of them that git has not refused.
    pub(super) fn asked_commands(&self) -> usize {
        self.asked_commands.load(Ordering::Relaxed)
    }

    /// Notes the number of commands that `pre-receive` asks about.
    pub(super) fn set_asked_commands(&self, count: usize) {
        self.asked_commands.store(count, Ordering::Relaxed);
    }

    /// Returns the commits of the client whose parents it does not have, [`MAX_SHALLOW_IDS`] at most.
    pub(super) fn shallow(&self) -> Vec<Oid> {
        self.shallow.lock().clone()
    }

    /// Notes a commit of the client whose parents it does not have.
    pub(super) fn add_shallow(&self, id: Oid) {
        let mut shallow = self.shallow.lock();
        if shallow.len() < MAX_SHALLOW_IDS {
            shallow.push(id);
        }
    }

    /// Returns the reason for which a ref was refused in quarantine.
    pub(super) fn refusal(&self, name: &[u8]) -> Option<String> {
        self.refusals.lock().get(name).cloned()
    }

    /// Notes the reasons for which the refs of a push are refused in quarantine.
    pub(super) fn set_refusals(&self, refusals: HashMap<Vec<u8>, String>) {
        *self.refusals.lock() = refusals;
    }
}
