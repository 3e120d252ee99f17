//! Shutdown and readiness of a process, and the tasks that its shutdown waits for.
//!
//! Not here: signals. The binary translates them to [`Lifecycle::stop`].

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

/// Tasks, shutdown and readiness of one process.
///
/// A shutdown goes: [`Lifecycle::stop`] turns the process unready and wakes [`Lifecycle::stopping`]; servers drain, workers return;
/// [`Lifecycle::finished`] waits for the tasks, at most the grace period.
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
    /// Returns a lifecycle whose shutdown takes at most `grace`.
    #[must_use]
    pub fn new(grace: Duration) -> Self {
        Self(Arc::new(Inner {
            stopping: CancellationToken::new(),
            tasks: TaskTracker::new(),
            ready: AtomicBool::new(false),
            grace,
        }))
    }

    /// Spawns `task`. Shutdown waits for it, so a long-running task must watch [`Lifecycle::stopping`].
    pub fn spawn<F>(&self, name: &'static str, task: F) -> tokio::task::JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.0.tasks.spawn(task.instrument(tracing::debug_span!("task", name)))
    }

    /// Begins the shutdown. Idempotent.
    pub fn stop(&self) {
        self.0.ready.store(false, Ordering::SeqCst);
        self.0.stopping.cancel();
    }

    /// Returns whether [`Lifecycle::stop`] was called.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.0.stopping.is_cancelled()
    }

    /// Waits until [`Lifecycle::stop`] is called.
    pub async fn stopping(&self) {
        self.0.stopping.cancelled().await;
    }

    /// Returns the grace period: the longest time a shutdown may take.
    #[must_use]
    pub fn grace(&self) -> Duration {
        self.0.grace
    }

    /// Sets the readiness of the process. Has no effect once the shutdown has begun.
    pub fn set_ready(&self, ready: bool) {
        self.0.ready.store(ready, Ordering::SeqCst);
    }

    /// Returns whether the process is ready to serve. A stopping process never is.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        // A readiness probe may call `set_ready` after the stop.
        self.0.ready.load(Ordering::SeqCst) && !self.is_stopping()
    }

    /// Waits for the shutdown to begin and then for all tasks to end, at most the grace period. Returns whether they ended in time.
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
        assert!(!life.is_ready(), "a probe may finish after the stop");
        life.stop();
    }

    #[tokio::test]
    async fn a_shutdown_waits_for_its_tasks_at_most_the_grace_period() {
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
