//! Which repositories are being worked on, and how to end that.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ferrite_proto::id::RepositoryId;
use tokio_util::sync::CancellationToken;

/// The jobs that run, one per repository at most. Clones share everything.
#[derive(Clone, Debug, Default)]
pub(super) struct RunningJobs(Arc<Mutex<HashMap<RepositoryId, Signals>>>);

#[derive(Clone, Debug, Default)]
struct Signals {
    stop: CancellationToken,
    ended: CancellationToken,
}

/// The right to work on one repository, until dropped.
#[derive(Debug)]
pub(super) struct JobHandle {
    pub(super) id: RepositoryId,
    running: RunningJobs,
    signals: Signals,
}

impl RunningJobs {
    fn lock(&self) -> MutexGuard<'_, HashMap<RepositoryId, Signals>> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a job unless one is running.
    pub(super) fn begin(&self, id: RepositoryId) -> Option<JobHandle> {
        let mut jobs = self.lock();
        if jobs.contains_key(&id) {
            return None;
        }
        let signals = Signals::default();
        jobs.insert(id, signals.clone());
        Some(JobHandle { id, running: self.clone(), signals })
    }

    /// Whether a job is running.
    pub(super) fn has(&self, id: RepositoryId) -> bool {
        self.lock().contains_key(&id)
    }

    /// Ends the job of a repository that goes away, and waits for its end.
    pub(super) async fn stop(&self, id: RepositoryId) {
        let signals = self.lock().get(&id).cloned();
        if let Some(signals) = signals {
            signals.stop.cancel();
            signals.ended.cancelled().await;
        }
    }

    /// Tells all jobs to end.
    pub(super) fn stop_all(&self) {
        self.lock().values().for_each(|signals| signals.stop.cancel());
    }
}

impl JobHandle {
    /// Returns when the job must end.
    pub(super) async fn stopped(&self) {
        self.signals.stop.cancelled().await;
    }
}

impl Drop for JobHandle {
    fn drop(&mut self) {
        self.running.lock().remove(&self.id);
        self.signals.ended.cancel();
    }
}
