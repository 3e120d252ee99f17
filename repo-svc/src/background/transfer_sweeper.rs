use std::time::Duration;

use ferrite_core::{Clock, Lifecycle};

use crate::error::RepoError;
use crate::store::TransferTable;

const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// Deletes transfers whose time is over. Until then they are only hidden.
#[derive(Clone, Debug)]
pub(crate) struct TransferSweeper {
    transfers: TransferTable,
    clock: Clock,
}

impl TransferSweeper {
    /// Creates a sweeper of `transfers`.
    pub(crate) fn new(transfers: TransferTable, clock: Clock) -> Self {
        Self { transfers, clock }
    }

    /// Starts to sweep now and every minute, until `life` stops.
    pub(crate) fn start(self, life: &Lifecycle) {
        let life2 = life.clone();
        life.spawn("transfer sweeper", async move {
            while !life2.is_stopping() {
                if let Err(error) = self.sweep().await {
                    tracing::warn!(%error, "cannot delete expired transfers; trying again later");
                }
                life2.pause(SWEEP_INTERVAL).await;
            }
        });
    }

    /// Deletes the transfers whose time is over.
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) async fn sweep(&self) -> Result<(), RepoError> {
        loop {
            let expired = self.transfers.purge(self.clock.now_us()).await?;
            if expired == 0 {
                return Ok(());
            }
            metrics::counter!("ferrite_owner_transfers_ended_total", "reason" => "expired").increment(expired);
            tracing::info!("{expired} transfers expired");
        }
    }
}
