use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

/// The life of one process: what runs in it, when it has to stop, and whether it is ready.
///
/// Stopping is: [`Lifecycle::stop`] turns it unready and wakes [`Lifecycle::stopping`]; servers drain, workers return;
/// [`Lifecycle::finished`] waits for them, at most the grace period.
#[derive(Clone, Debug)]
pub struct Lifecycle(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    stopping: CancellationToken,
    tasks: TaskTracker,
    ready: AtomicBool,
    grace: Duration,
}

impl Lifecycle {
    /// A life that ends within `grace` once it is told to stop.
    #[must_use]
    pub fn new(grace: Duration) -> Self {
        Self(Arc::new(Inner {
            stopping: CancellationToken::new(),
            tasks: TaskTracker::new(),
            ready: AtomicBool::new(false),
            grace,
        }))
    }

    /// Runs `task` beside the caller; shutdown waits for it. A task watches [`Lifecycle::stopping`] itself.
    pub fn spawn<F>(&self, name: &'static str, task: F) -> tokio::task::JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.0.tasks.spawn(task.instrument(tracing::debug_span!("task", name)))
    }

    /// Tells everything to stop. Idempotent.
    pub fn stop(&self) {
        self.0.ready.store(false, Ordering::SeqCst);
        self.0.stopping.cancel();
    }

    /// Whether [`Lifecycle::stop`] was called.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.0.stopping.is_cancelled()
    }

    /// Returns when [`Lifecycle::stop`] was called.
    pub async fn stopping(&self) {
        self.0.stopping.cancelled().await;
    }

    /// How long stopping may take.
    #[must_use]
    pub fn grace(&self) -> Duration {
        self.0.grace
    }

    /// Says whether the process can do its work now. A stopping process never can.
    pub fn set_ready(&self, ready: bool) {
        self.0.ready.store(ready, Ordering::SeqCst);
    }

    /// Whether the process can do its work now.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        // A probe may store its answer after the stop.
        self.0.ready.load(Ordering::SeqCst) && !self.is_stopping()
    }

    /// Waits for all tasks after a stop, at most the grace period. Returns whether all of them ended in time.
    pub async fn finished(&self) -> bool {
        self.stopping().await;
        self.0.tasks.close();
        tokio::time::timeout(self.0.grace, self.0.tasks.wait()).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stopping_process_is_never_ready() {
        let life = Lifecycle::new(Duration::from_secs(1));
        assert!(!life.is_ready());
        life.set_ready(true);
        assert!(life.is_ready());
        life.stop();
        assert!(!life.is_ready());
        life.set_ready(true);
        assert!(!life.is_ready(), "a probe may come late");
        life.stop();
    }

    #[tokio::test]
    async fn stopping_waits_for_its_tasks_but_not_beyond_the_grace() {
        let life = Lifecycle::new(Duration::from_millis(200));
        let watched = life.clone();
        life.spawn("quick", async move { watched.stopping().await });
        life.stop();
        assert!(life.finished().await);
        let life = Lifecycle::new(Duration::from_millis(200));
        life.spawn("stuck", std::future::pending::<()>());
        life.stop();
        assert!(!life.finished().await);
    }
}
