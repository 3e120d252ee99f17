//! Work that keeps a processor busy, on blocking threads: so many at once, so many waiting, and the rest is refused.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::http::error::ApiError;

/// Renderings of Markdown at once. One of the largest texts takes tens of megabytes.
const MAX_RENDERINGS: usize = 2;
/// Pictures that are decoded at once. One of the largest takes 150 MB.
const MAX_PICTURES: usize = 1;
/// Large JSON responses that are written at once. Each takes the bytes of the response, and some milliseconds.
const MAX_JSON_WRITES: usize = 4;
/// Large JSON responses that may wait to be written.
const MAX_WAITING_JSON_WRITES: usize = 128;
/// Requests that may wait for each other kind of work.
const MAX_WAITING: usize = 32;
/// Longest wait.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// The kinds of work; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct BlockingPools {
    /// Rendering of Markdown.
    pub(crate) markdown: BlockingPool,
    /// Decoding of pictures.
    pub(crate) pictures: BlockingPool,
    /// Writing of large JSON responses.
    pub(crate) json: BlockingPool,
}

impl Default for BlockingPools {
    fn default() -> Self {
        Self {
            markdown: BlockingPool::new(MAX_RENDERINGS, MAX_WAITING),
            pictures: BlockingPool::new(MAX_PICTURES, MAX_WAITING),
            json: BlockingPool::new(MAX_JSON_WRITES, MAX_WAITING_JSON_WRITES),
        }
    }
}

/// One kind of work; clones share its limits.
#[derive(Clone, Debug)]
pub(crate) struct BlockingPool {
    queue: Arc<Semaphore>,
    running: Arc<Semaphore>,
}

impl BlockingPool {
    fn new(max_running: usize, max_waiting: usize) -> Self {
        Self {
            queue: Arc::new(Semaphore::new(max_running + max_waiting)),
            running: Arc::new(Semaphore::new(max_running)),
        }
    }

    /// Runs `work` on a blocking thread. Work that has begun ends, even if the request ends before.
    ///
    /// # Errors
    /// 503 when too much waits already, or waited for too long; 500 when `work` panics.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let _place = self.queue.try_acquire().map_err(|_| ApiError::unavailable())?;
        let permit = tokio::time::timeout(MAX_WAIT, Arc::clone(&self.running).acquire_owned());
        let permit = permit.await.map_err(|_| ApiError::unavailable())?.map_err(|_| ApiError::unavailable())?;
        #[expect(
            clippy::disallowed_methods,
            reason = "bounded by the semaphore, whose permit the task holds to its end"
        )]
        let task = tokio::task::spawn_blocking(move || {
            let outcome = work();
            drop(permit);
            outcome
        });
        task.await.map_err(|error| {
            tracing::error!(%error, "work on a blocking thread failed");
            ApiError::internal()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn work_above_the_limits_is_refused_and_places_come_back() {
        let pool = BlockingPool::new(1, 1);
        let (release, wait) = mpsc::channel::<()>();
        let wait = std::sync::Mutex::new(wait);
        let (first, second) = (pool.run(move || wait.lock().unwrap().recv().is_err()), pool.run(|| true));
        let (mut first, mut second) = (Box::pin(first), Box::pin(second));
        assert!(futures_util::poll!(&mut first).is_pending());
        assert!(futures_util::poll!(&mut second).is_pending());
        assert_eq!(pool.run(|| true).await.unwrap_err().status.as_u16(), 503);
        drop(release);
        assert!(first.await.unwrap() && second.await.unwrap());
        assert!(pool.run(|| true).await.unwrap());
        assert_eq!(pool.run(|| assert_eq!(1, 2)).await.unwrap_err().status.as_u16(), 500);
    }
}
