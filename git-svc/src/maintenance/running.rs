//! Background jobs on repositories that are running, and how to stop them.

use std::{collections::HashMap, sync::Arc};

use ferrite_proto::id::RepositoryId;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Running jobs by repository, at most one each. Clones share one map.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunningJobs(Arc<Mutex<HashMap<RepositoryId, Signals>>>);

/// Requests the end of a job, and reports it.
#[derive(Clone, Debug, Default)]
struct Signals {
    stop: CancellationToken,
    ended: CancellationToken,
}

/// Registration of the running job of one repository; removed when dropped.
#[derive(Debug)]
pub(crate) struct JobHandle {
    pub(crate) id: RepositoryId,
    running: RunningJobs,
    signals: Signals,
}

impl RunningJobs {
    /// Registers a job. Returns `None` if one is running on the repository already.
    pub(crate) fn begin(&self, id: RepositoryId) -> Option<JobHandle> {
        let mut jobs = self.0.lock();
        if jobs.contains_key(&id) {
            return None;
        }
        let signals = Signals::default();
        jobs.insert(id, signals.clone());
        Some(JobHandle { id, running: self.clone(), signals })
    }

    /// Returns whether a job is running on the repository.
    pub(crate) fn has(&self, id: RepositoryId) -> bool {
        self.0.lock().contains_key(&id)
    }

    /// Stops the job of a repository that is being deleted, and waits for its end.
    pub(crate) async fn stop(&self, id: RepositoryId) {
        let signals = self.0.lock().get(&id).cloned();
        if let Some(signals) = signals {
            signals.stop.cancel();
            signals.ended.cancelled().await;
        }
    }

    /// Stops all jobs, without waiting for their ends.
    pub(crate) fn stop_all(&self) {
        self.0.lock().values().for_each(|signals| signals.stop.cancel());
    }
}

impl JobHandle {
    /// Waits until the job is to stop.
    pub(crate) async fn stopped(&self) {
        self.signals.stop.cancelled().await;
    }

    /// Waits for `work`; `None` if the job is to stop before its end.
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
