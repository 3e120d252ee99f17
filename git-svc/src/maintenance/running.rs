//! Running background jobs on repositories, and how to stop them.

use std::{collections::HashMap, sync::Arc};

use ferrite_proto::id::RepositoryId;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Running jobs, at most one per repository. Clones share one map.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunningJobs(Arc<Mutex<HashMap<RepositoryId, Signals>>>);

/// Asks a job to stop, and reports its end.
#[derive(Clone, Debug, Default)]
struct Signals {
    stop: CancellationToken,
    ended: CancellationToken,
}

/// Registration of the running job of one repository. Removed when dropped.
#[derive(Debug)]
pub(crate) struct JobHandle {
    pub(crate) id: RepositoryId,
    running: RunningJobs,
    signals: Signals,
}

impl RunningJobs {
    /// Registers a job. Returns `None` if the repository already has one.
    pub(crate) fn begin(&self, id: RepositoryId) -> Option<JobHandle> {
        let mut jobs = self.0.lock();
        if jobs.contains_key(&id) {
            return None;
        }
        let signals = Signals::default();
        jobs.insert(id, signals.clone());
        Some(JobHandle { id, running: self.clone(), signals })
    }

    /// Returns whether the repository has a running job.
    pub(crate) fn has(&self, id: RepositoryId) -> bool {
        self.0.lock().contains_key(&id)
    }

    /// Stops the job of a repository that is being deleted, and waits until it ends.
    pub(crate) async fn stop(&self, id: RepositoryId) {
        let signals = self.0.lock().get(&id).cloned();
        if let Some(signals) = signals {
            signals.stop.cancel();
            signals.ended.cancelled().await;
        }
    }

    pub(crate) fn stop_all(&self) {
        self.0.lock().values().for_each(|signals| signals.stop.cancel());
    }
}

impl JobHandle {
    /// Waits until the job has to stop.
    pub(crate) async fn stopped(&self) {
        self.signals.stop.cancelled().await;
    }

    /// Waits for `work`; `None` if the job has to stop first.
    pub(crate) async fn unless_stopped<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            () = self.stopped() => None,
            done = work => Some(done),
        }
    }
}

impl Drop for JobHandle {
    fn drop(&mut self) {
        self.running.0.lock().remove(&self.id);
        self.signals.ended.cancel();
    }
}
