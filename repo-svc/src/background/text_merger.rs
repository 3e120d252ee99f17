//! The background task that keeps SQLite's full-text tables in few segments. Not here: the merges (`store::text_index`).

use std::time::Duration;

use ferrite_kit::Lifecycle;
use ferrite_kit::db::DbError;

use crate::store::TextIndex;

/// Time between two rounds of merges.
const MERGE_INTERVAL: Duration = Duration::from_secs(5 * 60);
/// Time between two merges of one round, in which others write.
const MERGE_PAUSE: Duration = Duration::from_millis(100);

/// Merges segments of SQLite's full-text tables, so that searches stay fast.
#[derive(Clone, Debug)]
pub(crate) struct TextMerger {
    index: TextIndex,
}

impl TextMerger {
    /// Creates a merger of `index`.
    pub(crate) fn new(index: TextIndex) -> Self {
        Self { index }
    }

    /// Starts to merge now and every five minutes, until `life` stops; on PostgreSQL never.
    pub(crate) fn start(self, life: &Lifecycle) {
        if !self.index.is_there() {
            return;
        }
        let life2 = life.clone();
        life.spawn("text merger", async move {
            while !life2.is_stopping() {
                if let Err(error) = self.merge_all(&life2).await {
                    tracing::warn!(%error, "cannot merge the full-text tables; trying again later");
                }
                life2.pause(MERGE_INTERVAL).await;
            }
        });
    }

    /// Merges until there is nothing to merge.
    async fn merge_all(&self, life: &Lifecycle) -> Result<(), DbError> {
        while !life.is_stopping() && self.index.merge().await? {
            life.pause(MERGE_PAUSE).await;
        }
        Ok(())
    }
}
