//! Runs CPU-bound work on blocking threads. Limits how many jobs run and wait, in total and per
//! client; rejects the rest.
//!
//! A blocking thread cannot be killed. Long work checks its [`Interrupt`], and stops when the
//! client has left or the time is up.

pub(crate) mod turns;

use std::borrow::Cow;
use std::time::{Duration, Instant};

use ferrite_listener::{Client, QuotaLimits};
use tokio_util::sync::CancellationToken;

use self::turns::Turns;
use crate::http::error::ApiError;

/// Each of the largest texts takes tens of megabytes to render.
const MAX_RENDERINGS: usize = 2;
/// One of the largest pictures takes 150 MB to decode.
const MAX_PICTURES: usize = 1;
/// Large JSON responses encoded at once. Each takes its size in memory and a few milliseconds.
const MAX_JSON_WRITES: usize = 4;
const MAX_WAITING_JSON_WRITES: usize = 128;
/// Requests that can wait for each other kind of work.
const MAX_WAITING: usize = 32;
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Time limit of an interruptible job.
const MAX_WORK: Duration = Duration::from_secs(10);
/// Texts up to this size take less time than a place in the queue.
const MAX_INLINE_BYTES: usize = 16 << 10;
const TOO_SLOW: &str = "the request exceeded its time limit, try again";

#[derive(Clone, Debug)]
pub(crate) struct BlockingPools {
    pub(crate) markdown: BlockingPool,
    pub(crate) pictures: BlockingPool,
    /// Encoding of large JSON responses.
    pub(crate) json: BlockingPool,
}

impl Default for BlockingPools {
    fn default() -> Self {
        // These jobs are short, so one client can use all places.
        let json = QuotaLimits { per_address: MAX_JSON_WRITES, ..QuotaLimits::of(MAX_JSON_WRITES) };
        Self {
            markdown: BlockingPool::new("markdown", QuotaLimits::of(MAX_RENDERINGS), MAX_WAITING),
            pictures: BlockingPool::new("pictures", QuotaLimits::of(MAX_PICTURES), MAX_WAITING),
            json: BlockingPool::new("json", json, MAX_WAITING_JSON_WRITES),
        }
    }
}

/// One kind of work; clones share its limits. An address gets at most half of the places, a user a
/// quarter.
#[derive(Clone, Debug)]
pub(crate) struct BlockingPool {
    name: &'static str,
    turns: Turns,
    max_work: Duration,
}

impl BlockingPool {
    fn new(name: &'static str, running: QuotaLimits, max_waiting: usize) -> Self {
        Self { name, turns: Turns::new(running, max_waiting), max_work: MAX_WORK }
    }

    /// Runs `work` for a client on a blocking thread. Started work keeps its place until it ends;
    /// dropping the future interrupts it.
    ///
    /// # Errors
    /// 503 if the queue is full or the wait was too long; 500 if `work` panics.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        client: Client,
        work: impl FnOnce(&Interrupt) -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let turn = match tokio::time::timeout(MAX_WAIT, self.turns.wait(client)).await {
            Ok(Ok(turn)) => turn,
            Ok(Err(full)) => return Err(self.refuse("places", full.message("requests of this kind"))),
            Err(_) => return Err(self.refuse("wait", "timed out in the queue for this kind of request, try again")),
        };
        let interrupt = self.interrupt();
        let _guard = interrupt.left.clone().drop_guard();
        #[expect(clippy::disallowed_methods, reason = "bounded by the turn, which the task holds until it ends")]
        let task = tokio::task::spawn_blocking(move || {
            let outcome = work(&interrupt);
            drop(turn);
            outcome
        });
        task.await.map_err(|error| {
            tracing::error!(%error, "job on a blocking thread failed");
            ApiError::internal()
        })
    }

    /// As [`Self::run`], for work that stops early when interrupted. 503 if it exceeds the time
    /// limit.
    pub(crate) async fn run_interruptible<T: Send + 'static>(
        &self,
        client: Client,
        work: impl FnOnce(&Interrupt) -> Result<T, Interrupted> + Send + 'static,
    ) -> Result<T, ApiError> {
        let done = self.run(client, work).await?;
        done.map_err(|Interrupted| self.refuse("time", TOO_SLOW))
    }

    /// As [`Self::run_interruptible`], for work on a text of this many bytes. Short ones need no turn.
    pub(crate) async fn run_on_text<T: Send + 'static>(
        &self,
        client: Client,
        bytes: usize,
        work: impl FnOnce(&Interrupt) -> Result<T, Interrupted> + Send + 'static,
    ) -> Result<T, ApiError> {
        if bytes > MAX_INLINE_BYTES {
            return self.run_interruptible(client, work).await;
        }
        let done = work(&self.interrupt());
        done.map_err(|Interrupted| self.refuse("time", TOO_SLOW))
    }

    fn interrupt(&self) -> Interrupt {
        Interrupt { left: CancellationToken::new(), deadline: Instant::now() + self.max_work }
    }

    fn refuse(&self, limit: &'static str, message: impl Into<Cow<'static, str>>) -> ApiError {
        metrics::counter!("ferrite_blocking_refused_total", "pool" => self.name, "limit" => limit).increment(1);
        ApiError::busy(message)
    }
}

/// Tells work to stop because its client has left or its time is up.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt {
    left: CancellationToken,
    deadline: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interrupted")]
pub(crate) struct Interrupted;

impl Interrupt {
    /// Checks whether the work can continue. As cheap as reading the clock.
    pub(crate) fn check(&self) -> Result<(), Interrupted> {
        if self.left.is_cancelled() || Instant::now() >= self.deadline { Err(Interrupted) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn client(address: &str) -> Client {
        Client { address: Some(address.parse().unwrap()), user: None }
    }

    fn pool(max_running: usize, max_waiting: usize) -> BlockingPool {
        BlockingPool::new("test", QuotaLimits::of(max_running), max_waiting)
    }

    #[tokio::test]
    async fn work_above_the_limits_is_refused_and_places_come_back() {
        let pool = pool(1, 1);
        let nobody = Client::default();
        let (release, wait) = mpsc::channel::<()>();
        let wait = std::sync::Mutex::new(wait);
        let (first, second) =
            (pool.run(nobody, move |_| wait.lock().unwrap().recv().is_err()), pool.run(nobody, |_| true));
        let (mut first, mut second) = (Box::pin(first), Box::pin(second));
        assert!(futures_util::poll!(&mut first).is_pending());
        assert!(futures_util::poll!(&mut second).is_pending());
        assert_eq!(pool.run(nobody, |_| true).await.unwrap_err().status.as_u16(), 503);
        drop(release);
        assert!(first.await.unwrap() && second.await.unwrap());
        assert!(pool.run(nobody, |_| true).await.unwrap());
        assert_eq!(pool.run(nobody, |_| assert_eq!(1, 2)).await.unwrap_err().status.as_u16(), 500);
        assert!(pool.run(nobody, |_| true).await.unwrap(), "a panic returns its place");
    }

    #[tokio::test]
    async fn a_short_text_needs_no_place() {
        let pool = pool(1, 0);
        let nobody = Client::default();
        let (release, wait) = mpsc::channel::<()>();
        let wait = std::sync::Mutex::new(wait);
        let mut held = Box::pin(pool.run(nobody, move |_| wait.lock().unwrap().recv().is_err()));
        assert!(futures_util::poll!(&mut held).is_pending());
        assert!(pool.run_on_text(nobody, MAX_INLINE_BYTES, |_| Ok(true)).await.unwrap());
        assert!(pool.run_on_text(nobody, MAX_INLINE_BYTES + 1, |_| Ok(true)).await.is_err());
        drop(release);
        assert!(held.await.unwrap());
    }

    #[tokio::test]
    async fn an_address_leaves_places_to_others() {
        let pool = pool(2, 6);
        let (release, wait) = mpsc::channel::<()>();
        let wait = std::sync::Mutex::new(wait);
        let held = pool.run(client("192.0.2.1"), move |_| wait.lock().unwrap().recv().is_err());
        let mut held = Box::pin(held);
        assert!(futures_util::poll!(&mut held).is_pending());
        let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(pool.run(client("192.0.2.1"), |_| true))).collect();
        for job in &mut waiting {
            assert!(futures_util::poll!(job).is_pending());
        }
        // Half of the eight places: one job runs, three wait.
        assert_eq!(pool.run(client("192.0.2.1"), |_| true).await.unwrap_err().status.as_u16(), 503);
        assert!(pool.run(client("192.0.2.2"), |_| true).await.unwrap(), "another address runs at once");
        drop(release);
        assert!(held.await.unwrap());
        for job in waiting {
            assert!(job.await.unwrap());
        }
    }

    #[tokio::test]
    async fn work_ends_when_its_client_leaves() {
        let pool = pool(1, 1);
        let (tell, told) = mpsc::channel();
        let endless = pool.run_interruptible(client("192.0.2.1"), move |interrupt| {
            while interrupt.check().is_ok() {
                std::thread::yield_now();
            }
            tell.send(()).unwrap();
            Err::<(), _>(Interrupted)
        });
        let mut endless = Box::pin(endless);
        assert!(futures_util::poll!(&mut endless).is_pending());
        drop(endless);
        // Waits until the interrupted work gives up its place.
        assert!(pool.run(client("192.0.2.2"), |_| true).await.unwrap());
        assert!(told.try_recv().is_ok());
    }

    #[tokio::test]
    async fn work_ends_when_its_time_is_over() {
        let pool = BlockingPool { max_work: Duration::from_millis(1), ..pool(1, 1) };
        let endless = pool.run_interruptible(Client::default(), |interrupt| {
            while interrupt.check().is_ok() {
                std::thread::yield_now();
            }
            Err::<(), _>(Interrupted)
        });
        assert_eq!(endless.await.unwrap_err().status.as_u16(), 503);
    }
}
