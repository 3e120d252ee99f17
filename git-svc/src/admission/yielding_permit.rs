//! A permit that is released while its session is idle, so that long, quiet connections do not keep
//! others from being served.

use std::time::Duration;

use ferrite_proto::id::RepositoryId;
use git_store::types::error::GitError;
use tokio::{sync::Mutex, time::Instant};

use super::{
    limiter::{ClientKey, Limiter, Permit},
    throughput::{IdleTimer, MinThroughput},
};

/// Idle time after which the permit is released if the process may be waiting for its client.
/// Longer than git's keepalive interval while it makes a pack, which is five seconds.
const IDLE_BEFORE_RELEASE: Duration = Duration::from_secs(7);
/// Interval of attempts to get a permit while the limiter rejects them.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Permit of a limiter, held only while the session is busy.
pub(crate) struct YieldingPermit<'a> {
    limiter: &'a Limiter,
    repository: RepositoryId,
    client: ClientKey,
    permit: Mutex<Option<Permit>>,
    idle: Duration,
}

impl<'a> YieldingPermit<'a> {
    pub(crate) fn new(limiter: &'a Limiter, repository: RepositoryId, client: ClientKey, permit: Permit) -> Self {
        Self { limiter, repository, client, permit: Mutex::new(Some(permit)), idle: IDLE_BEFORE_RELEASE }
    }

    /// Overrides the idle time after which the permit is released.
    #[cfg(test)]
    pub(crate) fn released_after(self, idle: Duration) -> Self {
        Self { idle, ..self }
    }

    /// Acquires the permit again if it was released, however long that takes.
    pub(crate) async fn acquire(&self) {
        let mut permit = self.permit.lock().await;
        while permit.is_none() {
            match self.limiter.acquire(self.repository, &self.client).await {
                Ok(taken) => *permit = Some(taken),
                Err(GitError::Overloaded | _) => tokio::time::sleep(RETRY_INTERVAL).await,
            }
        }
    }

    /// Acquires the permit for `bytes` that the client sent since `asked`. If the client is too
    /// slow, releases the permit first to let waiting requests go ahead.
    pub(crate) async fn acquire_for(&self, throughput: &mut MinThroughput, asked: Instant, bytes: usize) {
        throughput.add_wait(asked.elapsed());
        throughput.add_bytes(bytes);
        if throughput.is_slow() {
            throughput.reset();
            *self.permit.lock().await = None;
        }
        self.acquire().await;
    }

    /// Releases the permit whenever the session is idle and its process may be waiting for the
    /// client. Never returns.
    pub(crate) async fn release_when_idle(
        &self,
        timer: &IdleTimer,
        may_wait_for_client: impl Fn() -> bool,
    ) -> std::convert::Infallible {
        loop {
            timer.expired(self.idle).await;
            // The lock is taken while a task waits in `acquire`; then there is no permit to
            // release.
            if may_wait_for_client()
                && let Ok(mut permit) = self.permit.try_lock()
            {
                *permit = None;
            }
            tokio::time::sleep(self.idle).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn is_free(limiter: &Limiter) -> bool {
        tokio::time::timeout(Duration::from_millis(20), limiter.acquire(RepositoryId(2), &ClientKey::User(2)))
            .await
            .is_ok()
    }

    #[tokio::test]
    async fn an_idle_process_releases_its_permit_and_acquires_another() {
        let limiter = Limiter::new("test", 1, 1);
        let permit = limiter.acquire(RepositoryId(1), &ClientKey::User(1)).await.unwrap();
        let permit = YieldingPermit::new(&limiter, RepositoryId(1), ClientKey::User(1), permit);
        let permit = permit.released_after(Duration::from_millis(50));
        let timer = IdleTimer::new();
        let busy = permit.release_when_idle(&timer, || false);
        assert!(tokio::time::timeout(Duration::from_millis(200), busy).await.is_err());
        assert!(!is_free(&limiter).await, "it does not wait for its client");
        let idle = permit.release_when_idle(&timer, || true);
        assert!(tokio::time::timeout(Duration::from_millis(200), idle).await.is_err());
        assert!(is_free(&limiter).await);
        permit.acquire().await;
        assert!(!is_free(&limiter).await);
    }

    #[tokio::test]
    async fn a_client_that_is_too_slow_queues_again() {
        let limiter = Limiter::new("test", 1, 1);
        let permit = limiter.acquire(RepositoryId(1), &ClientKey::User(1)).await.unwrap();
        let permit = YieldingPermit::new(&limiter, RepositoryId(1), ClientKey::User(1), permit);
        let mut other = Box::pin(limiter.acquire(RepositoryId(2), &ClientKey::User(2)));
        assert!(futures_util::poll!(&mut other).is_pending());
        let mut throughput = MinThroughput::new(Duration::from_secs(1), 1024);
        throughput.add_wait(Duration::from_secs(1));
        tokio::time::sleep(Duration::from_millis(10)).await;
        let mut own = Box::pin(permit.acquire_for(&mut throughput, Instant::now() - Duration::from_millis(5), 1));
        assert!(futures_util::poll!(&mut own).is_pending());
        let theirs = other.await.unwrap();
        drop(theirs);
        own.await;
    }
}
