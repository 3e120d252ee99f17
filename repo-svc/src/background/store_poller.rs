use std::time::Duration;

use ferrite_core::Lifecycle;
use ferrite_db::DbError;
use futures_util::StreamExt;
use futures_util::stream;

use crate::placement::{GitStores, Reachable};

/// Stores asked at the same time.
const MAX_QUESTIONS: usize = 32;
/// Interval while a store is unreachable, unless the usual one is shorter.
const UNREACHABLE_INTERVAL: Duration = Duration::from_secs(2);
/// First pause while no store responds; doubled each time up to a maximum.
const FIRST_RETRY_PAUSE: Duration = Duration::from_millis(100);
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Polls the status of all git stores, which decides where new repositories go.
#[derive(Clone, Debug)]
pub(crate) struct StorePoller {
    stores: GitStores,
    interval: Duration,
}

impl StorePoller {
    pub(crate) fn new(stores: GitStores, interval: Duration) -> Self {
        Self { stores, interval }
    }

    /// Polls now, at every interval, and when the set of stores changes. Polls more often while a
    /// store is unreachable, and about every second while all are: nobody can create a repository
    /// then.
    pub(crate) fn start(self, life: &Lifecycle) {
        let life2 = life.clone();
        life.spawn("store poller", async move {
            let mut retry = FIRST_RETRY_PAUSE;
            while !life2.is_stopping() {
                tokio::select! {
                    () = life2.stopping() => break,
                    polled = self.poll() => {
                        if let Err(error) = polled {
                            tracing::warn!(%error, "cannot read the list of git stores; will retry");
                        }
                    }
                }
                let (pause, next_retry) = match self.stores.reachable() {
                    Reachable::None => (retry, (2 * retry).min(MAX_RETRY_PAUSE)),
                    Reachable::Some => (UNREACHABLE_INTERVAL.min(self.interval), FIRST_RETRY_PAUSE),
                    Reachable::All => (self.interval, FIRST_RETRY_PAUSE),
                };
                retry = next_retry;
                tokio::select! {
                    () = life2.stopping() => {}
                    () = self.stores.until_changed() => {}
                    () = tokio::time::sleep(pause) => {}
                }
            }
        });
    }

    pub(crate) async fn poll(&self) -> Result<(), DbError> {
        let names = self.stores.refresh().await?;
        let ask = |name: String| async move { self.stores.ask(&name).await };
        stream::iter(names).for_each_concurrent(MAX_QUESTIONS, ask).await;
        self.stores.report();
        Ok(())
    }
}
