use std::sync::Arc;
use std::time::Duration;

use ferrite_core::Lifecycle;

use crate::auth::LastUse;
use crate::store::TokenTable;

const WRITE_INTERVAL: Duration = Duration::from_secs(30);

/// Writes the noted last uses of tokens to the database.
#[derive(Clone, Debug)]
pub(crate) struct LastUseWriter {
    last_use: Arc<LastUse>,
    tokens: TokenTable,
}

impl LastUseWriter {
    /// Creates a writer that moves the uses in `last_use` to `tokens`.
    pub(crate) fn new(last_use: Arc<LastUse>, tokens: TokenTable) -> Self {
        Self { last_use, tokens }
    }

    /// Starts to write every 30 seconds until `life` stops. Uses noted after that are written by a last call of
    /// [`LastUseWriter::write`] once all requests are done.
    pub(crate) fn start(self, life: &Lifecycle) {
        let life2 = life.clone();
        life.spawn("last use", async move {
            while life2.pause(WRITE_INTERVAL).await {
                self.write().await;
            }
        });
    }

    /// Writes the noted uses. If the database refuses, they are noted again for the next call.
    pub(crate) async fn write(&self) {
        let uses = self.last_use.take();
        metrics::gauge!("ferrite_last_use_queue_length").set(uses.len() as f64);
        if let Err(error) = self.tokens.record_uses(&uses).await {
            tracing::warn!(%error, "cannot write when tokens were last used; trying again later");
            uses.iter().for_each(|&(token_id, used_us)| self.last_use.note(token_id, used_us));
        }
    }
}
