use std::time::Duration;

use ferrite_core::{Clock, Lifecycle};

use crate::error::RepoError;
use crate::store::TransferTable;

const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// Deletes expired transfers, which are already hidden.
#[derive(Clone, Debug)]
pub(crate) struct TransferSweeper {
    transfers: TransferTable,
    clock: Clock,
}

impl TransferSweeper {
    pub(crate) fn new(transfers: TransferTable, clock: Clock) -> Self {
        Self { transfers, clock }
    }

    pub(crate) fn start(self, life: &Lifecycle) {
        let life2 = life.clone();
        life.spawn("transfer sweeper", async move {
            while !life2.is_stopping() {
                if let Err(error) = self.sweep().await {
                    tracing::warn!(%error, "cannot delete expired transfers; will retry");
                }
                life2.pause(SWEEP_INTERVAL).await;
            }
        });
    }

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
