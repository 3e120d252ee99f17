use std::time::Duration;

use ferrite_core::Lifecycle;
use ferrite_db::DbError;
use futures_util::StreamExt;
use futures_util::stream;

use crate::placement::{GitStores, Reachable};

/// Stores that are asked at once.
const MAX_QUESTIONS: usize = 32;
/// Time between two rounds while a store does not respond, unless the interval is shorter.
const UNREACHABLE_INTERVAL: Duration = Duration::from_secs(2);
/// Time between the first two rounds while no store responds, doubled each time up to a maximum.
const FIRST_RETRY_PAUSE: Duration = Duration::from_millis(100);
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Asks all git stores how they are, for the choice of one for a new repository.
#[derive(Clone, Debug)]
pub(crate) struct StorePoller {
    stores: GitStores,
    interval: Duration,
}

impl StorePoller {
    /// Creates a poller that asks `stores` every `interval`.
    pub(crate) fn new(stores: GitStores, interval: Duration) -> Self {
        Self { stores, interval }
    }

    /// Starts to ask now, after every interval, and when stores have changed, until `life` stops. Asks more often while a store does not
    /// respond, and at least every second or so while none does: until then nobody can create a repository.
    pub(crate) fn start(self, life: &Lifecycle) {
        let life2 = life.clone();
        life.spawn("store poller", async move {
            let mut retry = FIRST_RETRY_PAUSE;
            while !life2.is_stopping() {
                tokio::select! {
                    () = life2.stopping() => break,
                    polled = self.poll() => {
                        if let Err(error) = polled {
                            tracing::warn!(%error, "cannot read which git stores there are; trying again later");
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

    /// Asks all stores, many at once.
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) async fn poll(&self) -> Result<(), DbError> {
        let names = self.stores.refresh().await?;
        let ask = |name: String| async move { self.stores.ask(&name).await };
        stream::iter(names).for_each_concurrent(MAX_QUESTIONS, ask).await;
        self.stores.report();
        Ok(())
    }
}
