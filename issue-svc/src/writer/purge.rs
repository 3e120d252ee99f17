//! Removes the rows of deleted repositories, labels and milestones, and labels of former
//! organizations: a first batch at once, the rest in the background.

use std::time::Duration;

use ferrite_core::Lifecycle;
use ferrite_db::{DbError, Tx};
use tokio::sync::Notify;

use super::{IssueWriter, Write};
use crate::error::IssueError;
use crate::store::{CounterChange, Deleted, IssueTable};

const POLL_INTERVAL: Duration = Duration::from_secs(60);
/// Lets other writers go first.
const BATCH_PAUSE: Duration = Duration::from_millis(20);
const FAILURE_PAUSE: Duration = Duration::from_secs(5);

static WAKE: Notify = Notify::const_new();

impl Write<'_> {
    /// Removes the first batch of rows and records whether there may be more.
    pub(super) async fn purge_first_batch(&mut self, deleted: Deleted) -> Result<(), IssueError> {
        Ok(purge_first_batch(&self.writer.store, &mut self.tx, deleted, self.now_us).await?)
    }
}

/// Removes the first batch of rows in `tx` and records whether there may be more.
pub(crate) async fn purge_first_batch(
    store: &IssueTable,
    tx: &mut Tx,
    deleted: Deleted,
    now_us: i64,
) -> Result<(), DbError> {
    if store.purge(tx, deleted, now_us).await? {
        store.note_purge(tx, deleted).await?;
        wake_purges();
    }
    Ok(())
}

/// Makes the task that removes recorded rows look for them.
pub(crate) fn wake_purges() {
    WAKE.notify_one();
}

/// Removes the recorded rows until `life` stops.
pub(crate) async fn run_purges(writer: IssueWriter, life: Lifecycle) {
    loop {
        let pause = match purge_batch(&writer).await {
            Ok(true) => BATCH_PAUSE,
            Ok(false) => POLL_INTERVAL,
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "cannot purge the rows of a deleted repository, label or milestone"
                );
                FAILURE_PAUSE
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = WAKE.notified(), if pause == POLL_INTERVAL => {}
            () = life.stopping() => return,
        }
    }
}

/// Removes one batch. Returns false if nothing was left.
pub(super) async fn purge_batch(writer: &IssueWriter) -> Result<bool, IssueError> {
    let Some((note, deleted)) = writer.store.next_purge().await? else { return Ok(false) };
    let mut tx = writer.store.db().begin().await?;
    // Lock the counters, even those of a deleted repository, which no longer count anything.
    writer.store.advance(&mut tx, deleted.repository(), CounterChange::default()).await?;
    if !writer.store.purge(&mut tx, deleted, writer.clock.now_us()).await? {
        writer.store.end_purge(&mut tx, note).await?;
    }
    tx.commit().await?;
    Ok(true)
}
