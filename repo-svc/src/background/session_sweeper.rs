use std::time::Duration;

use ferrite_core::{Clock, Lifecycle};
use ferrite_db::DbError;

use crate::store::SessionTable;

const INTERVAL: Duration = Duration::from_secs(3600);
/// Gives writers a turn between two batches.
const BATCH_PAUSE: Duration = Duration::from_millis(20);

/// Deletes sessions that have expired or were not used for too long. They are refused before.
#[derive(Clone, Debug)]
pub(crate) struct SessionSweeper {
    sessions: SessionTable,
    clock: Clock,
}

impl SessionSweeper {
    pub(crate) fn new(sessions: SessionTable, clock: Clock) -> Self {
        Self { sessions, clock }
    }

    pub(crate) fn start(self, life: &Lifecycle) {
        let life2 = life.clone();
        life.spawn("session sweeper", async move {
            while !life2.is_stopping() {
                if let Err(error) = self.sweep(&life2).await {
                    tracing::warn!(%error, "cannot delete ended sessions; will retry");
                }
                life2.pause(INTERVAL).await;
            }
        });
    }

    async fn sweep(&self, life: &Lifecycle) -> Result<(), DbError> {
        while !life.is_stopping() && self.sessions.purge(self.clock.now_us()).await? > 0 {
            life.pause(BATCH_PAUSE).await;
        }
        Ok(())
    }
}
