//! Shutdown and readiness of a process, and the tasks that its shutdown waits for. The binary
//! translates signals to [`Lifecycle::stop`].

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use crate::writer;

/// Tasks, shutdown and readiness of one process.
///
/// A shutdown has three steps. [`Lifecycle::drain_and_stop`] marks the process unready and keeps
/// serving for a while, so that load balancers notice. [`Lifecycle::stop`] wakes
/// [`Lifecycle::stopping`]: servers close their listeners and finish running requests, and workers
/// return. [`Lifecycle::finished`] waits for the tasks and then runs the work of
/// [`Lifecycle::at_end`], all within the grace period.
#[derive(Clone)]
pub struct Lifecycle(Arc<Inner>);

struct Inner {
    /// True once the drain has begun.
    draining: AtomicBool,
    stopping: CancellationToken,
    tasks: TaskTracker,
    at_end: Mutex<Vec<BoxFuture<'static, ()>>>,
    ready: AtomicBool,
    unready_reason: Mutex<String>,
    grace: Duration,
}

impl fmt::Debug for Lifecycle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Lifecycle").field("grace", &self.0.grace).finish_non_exhaustive()
    }
}

impl Lifecycle {
    /// Returns a lifecycle whose shutdown takes at most `grace`.
    #[must_use]
    pub fn new(grace: Duration) -> Self {
        Self(Arc::new(Inner {
            draining: AtomicBool::new(false),
            stopping: CancellationToken::new(),
            tasks: TaskTracker::new(),
            at_end: Mutex::default(),
            ready: AtomicBool::new(false),
            unready_reason: Mutex::new("starting".to_owned()),
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

    /// Like [`Lifecycle::spawn`], for a task of the current request: it stays in the request's
    /// trace and writes for the same account.
    pub fn spawn_for_request<F>(&self, name: &'static str, task: F) -> tokio::task::JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.0.tasks.spawn(writer::inherit(task).instrument(tracing::debug_span!("task", name).or_current()))
    }

    /// Runs `work` in [`Lifecycle::finished`] once all tasks have ended. Does not run it if they do
    /// not end within the grace period, and cancels it at the end of that period.
    pub fn at_end(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.0.at_end.lock().push(Box::pin(work));
    }

    /// Marks the process unready, keeps serving for `drain`, then begins the shutdown.
    pub async fn drain_and_stop(&self, drain: Duration) {
        self.0.draining.store(true, Ordering::SeqCst);
        self.pause(drain).await;
        self.stop();
    }

    /// Whether the process drains or stops.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.0.draining.load(Ordering::SeqCst) || self.is_stopping()
    }

    /// Begins the shutdown. Idempotent.
    pub fn stop(&self) {
        self.0.ready.store(false, Ordering::SeqCst);
        self.0.stopping.cancel();
    }

    /// Whether [`Lifecycle::stop`] was called.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.0.stopping.is_cancelled()
    }

    /// Waits until [`Lifecycle::stop`] is called.
    pub async fn stopping(&self) {
        self.0.stopping.cancelled().await;
    }

    /// Waits for `time`, or until the process stops. Returns false if it stops: a background task
    /// then ends.
    pub async fn pause(&self, time: Duration) -> bool {
        tokio::time::timeout(time, self.stopping()).await.is_err()
    }

    /// Returns the grace period, the longest time that a shutdown may take.
    #[must_use]
    pub fn grace(&self) -> Duration {
        self.0.grace
    }

    /// Sets the readiness of the process. Has no effect once the shutdown has begun.
    pub fn set_ready(&self, ready: bool) {
        self.0.ready.store(ready, Ordering::SeqCst);
    }

    /// Sets the reason that `/readyz` shows while the process is not ready.
    pub fn set_unready_reason(&self, reason: impl Into<String>) {
        *self.0.unready_reason.lock() = reason.into();
    }

    /// Returns the latest reason why the process was not ready.
    #[must_use]
    pub fn unready_reason(&self) -> String {
        if self.is_draining() {
            return "stopping".to_owned();
        }
        self.0.unready_reason.lock().clone()
    }

    /// Whether the process is ready. Never true while it drains or stops.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        // A readiness probe may call `set_ready` after the stop.
        self.0.ready.load(Ordering::SeqCst) && !self.is_draining()
    }

    /// Waits for the shutdown to begin and for all tasks to end, then runs the work of
    /// [`Lifecycle::at_end`], all within the grace period. Returns whether everything ended in time.
    pub async fn finished(&self) -> bool {
        self.stopping().await;
        self.0.tasks.close();
        let ending = async {
            self.0.tasks.wait().await;
            let last = std::mem::take(&mut *self.0.at_end.lock());
            for work in last {
                work.await;
            }
        };
        tokio::time::timeout(self.0.grace, ending).await.is_ok()
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
    async fn a_process_is_unready_for_a_while_before_it_stops() {
        let life = Lifecycle::new(Duration::from_secs(1));
        life.set_ready(true);
        let drained = life.clone();
        let started = std::time::Instant::now();
        let drain = life.spawn("drain", async move { drained.drain_and_stop(Duration::from_millis(200)).await });
        while !life.is_draining() {
            tokio::task::yield_now().await;
        }
        assert!(!life.is_ready() && !life.is_stopping());
        life.set_ready(true);
        assert_eq!((life.is_ready(), life.unready_reason()), (false, "stopping".to_owned()));
        life.stopping().await;
        assert!(started.elapsed() >= Duration::from_millis(200));
        drain.await.unwrap();
    }

    #[tokio::test]
    async fn a_stop_ends_the_drain() {
        let life = Lifecycle::new(Duration::from_secs(1));
        let drained = life.clone();
        let drain = life.spawn("drain", async move { drained.drain_and_stop(Duration::from_secs(600)).await });
        life.stop();
        drain.await.unwrap();
    }

    #[tokio::test]
    async fn a_stop_ends_a_pause() {
        let life = Lifecycle::new(Duration::from_secs(1));
        let started = std::time::Instant::now();
        assert!(life.pause(Duration::from_millis(50)).await);
        assert!(started.elapsed() >= Duration::from_millis(50));
        let paused = life.clone();
        let pause = life.spawn("pause", async move { paused.pause(Duration::from_secs(600)).await });
        life.stop();
        assert!(!pause.await.unwrap());
        assert!(!life.pause(Duration::ZERO).await, "a pause does not begin after the stop");
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

    #[tokio::test]
    async fn the_last_work_runs_after_the_tasks_and_within_the_grace_period() {
        let life = Lifecycle::new(Duration::from_secs(5));
        let order = Arc::new(Mutex::new(Vec::new()));
        let (last, task, watched) = (Arc::clone(&order), Arc::clone(&order), life.clone());
        life.at_end(async move { last.lock().push("last") });
        life.spawn("task", async move {
            watched.stopping().await;
            tokio::task::yield_now().await;
            task.lock().push("task");
        });
        life.stop();
        assert!(life.finished().await);
        assert_eq!(*order.lock(), ["task", "last"]);
        let life = Lifecycle::new(Duration::from_millis(200));
        life.at_end(std::future::pending());
        life.stop();
        assert!(!life.finished().await);
        let life = Lifecycle::new(Duration::from_millis(200));
        let skipped = Arc::clone(&order);
        life.spawn("stuck", std::future::pending::<()>());
        life.at_end(async move { skipped.lock().push("skipped") });
        life.stop();
        assert!(!life.finished().await);
        assert_eq!(order.lock().len(), 2);
    }
}
