use std::sync::Arc;
use std::time::Duration;

use ferrite_core::Lifecycle;

use crate::auth::LastUse;
use crate::store::TokenTable;

const WRITE_INTERVAL: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub(crate) struct LastUseWriter {
    last_use: Arc<LastUse>,
    tokens: TokenTable,
}

impl LastUseWriter {
    pub(crate) fn new(last_use: Arc<LastUse>, tokens: TokenTable) -> Self {
        Self { last_use, tokens }
    }

    /// Writes every 30 seconds until `life` stops. Call [`LastUseWriter::write`] once more when all
    /// requests are done.
    pub(crate) fn start(self, life: &Lifecycle) {
        let life2 = life.clone();
        life.spawn("last use", async move {
            while life2.pause(WRITE_INTERVAL).await {
                self.write().await;
            }
        });
    }

    /// If the write fails, the uses are kept for the next call.
    pub(crate) async fn write(&self) {
        let uses = self.last_use.take();
        metrics::gauge!("ferrite_last_use_queue_length").set(uses.len() as f64);
        if let Err(error) = self.tokens.record_uses(&uses).await {
            tracing::warn!(%error, "cannot write the last use of tokens; will retry");
            uses.iter().for_each(|&(token_id, used_us)| self.last_use.note(token_id, used_us));
        }
    }
}
