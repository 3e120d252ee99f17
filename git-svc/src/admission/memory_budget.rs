//! Limits the memory of git processes that build files from deltas, in total and per client.

use std::{sync::Arc, time::Duration};

use git_store::types::{error::GitError, weak_map::WeakMap};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use super::limiter::{ClientKey, Counted};

/// Bytes per semaphore permit.
const UNIT_BYTES: u64 = 1 << 20;
const NAME: &str = "delta";

/// Memory shared by all clients. A client may take half of it.
///
/// A file that needs more than the total takes all of it, and one that needs more than a client's
/// half takes that half, so that such files are built one at a time. Waiting requests are served in
/// order of arrival.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    timeout: Duration,
    total: u32,
    all: Arc<Semaphore>,
    share: u32,
    clients: WeakMap<ClientKey, Semaphore>,
}

#[derive(Debug)]
pub(crate) struct MemoryPermit {
    _client: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
    _running: Counted,
}

impl MemoryBudget {
    /// Creates a budget of `bytes`. Clients wait up to `timeout` for their part.
    pub(crate) fn new(bytes: u64, timeout: Duration) -> Self {
        let total = units(bytes);
        let all = Arc::new(Semaphore::new(total as usize));
        Self { timeout, total, all, share: (total / 2).max(1), clients: WeakMap::default() }
    }

    /// Waits for `bytes` of memory. Fails with `Overloaded` if they are not free in time.
    pub(crate) async fn acquire(&self, bytes: u64, client: &ClientKey) -> Result<MemoryPermit, GitError> {
        let (of_client, of_all) = (units(bytes).min(self.share), units(bytes).min(self.total));
        let share = || Semaphore::new(self.share as usize);
        let client = self.clients.get_or_insert_with(client.with_deploy_keys(), share);
        // In this order, so that waiting for the client's part does not hold memory of others.
        let both = async {
            let client = client.acquire_many_owned(of_client).await?;
            Ok::<_, AcquireError>((client, Arc::clone(&self.all).acquire_many_owned(of_all).await?))
        };
        let waiting = Counted::by(&metrics::gauge!("ferrite_git_admission_waiting", "gate" => NAME));
        let acquired = tokio::time::timeout(self.timeout, both).await;
        drop(waiting);
        let Ok(Ok((client, all))) = acquired else {
            metrics::counter!("ferrite_git_refused_total", "gate" => NAME).increment(1);
            return Err(GitError::Overloaded);
        };
        let running = Counted::by(&metrics::gauge!("ferrite_git_admission_running", "gate" => NAME));
        Ok(MemoryPermit { _client: client, _all: all, _running: running })
    }
}

/// Returns the number of permits for `bytes`, at least one.
fn units(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = UNIT_BYTES;

    #[tokio::test]
    async fn a_client_has_half_and_a_part_is_free_again_once_it_is_dropped() {
        let budget = MemoryBudget::new(10 * MIB, Duration::ZERO);
        let (one, two) = (ClientKey::User(1), ClientKey::User(2));
        let held = budget.acquire(4 * MIB, &one).await.unwrap();
        assert!(matches!(budget.acquire(2 * MIB, &one).await, Err(GitError::Overloaded)), "more than its half");
        let others = budget.acquire(5 * MIB, &two).await.unwrap();
        let three = ClientKey::Address("::1".to_owned());
        assert!(matches!(budget.acquire(2 * MIB, &three).await, Err(GitError::Overloaded)), "more than there is");
        drop(held);
        drop((budget.acquire(5 * MIB, &one).await.unwrap(), others));
    }

    #[tokio::test]
    async fn a_file_that_needs_more_than_there_is_is_built_alone() {
        let budget = MemoryBudget::new(1, Duration::ZERO);
        let (one, two) = (ClientKey::User(1), ClientKey::User(2));
        let held = budget.acquire(u64::MAX, &one).await.unwrap();
        assert!(budget.acquire(1, &two).await.is_err());
        drop(held);
        budget.acquire(512 * MIB, &two).await.unwrap();
    }
}
