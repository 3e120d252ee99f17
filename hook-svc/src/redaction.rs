//! A background task that removes outdated texts from stored events. After a text is edited or
//! deleted, neither feeds nor later deliveries contain it.
//!
//! It works in small batches, each under the lock of the repository's row, and repositories take
//! turns. Several processes may run it: the second one finds nothing left to do.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use ferrite_core::Lifecycle;
use ferrite_db::DbError;
use tokio::sync::Notify;

use crate::model::Subject;
use crate::payload::redact::{COMMENT_TEXT, ISSUE_TEXT, PULL_TEXT, REVIEW_TEXT, TEXT_BEFORE, TextPath, without_texts};
use crate::store::events::{EventTable, StoredEvent, lock_repository};
use crate::store::redactions::{self, RedactedEvent, Redaction};

/// Events per batch. A payload can be 1 MiB.
const BATCH_EVENTS: i64 = 16;
/// Pause after an unfinished round, to let writers go first.
const ROUND_PAUSE: Duration = Duration::from_millis(20);
/// Polling picks up the work of a process that stopped before it was done.
const POLL_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub(crate) struct Redactor {
    store: EventTable,
    woken: Arc<Notify>,
}

impl Redactor {
    pub(crate) fn new(store: EventTable) -> Self {
        Self { store, woken: Arc::default() }
    }

    pub(crate) fn start(&self, life: &Lifecycle) {
        let (redactor, stopping) = (self.clone(), life.clone());
        life.spawn("redaction", async move {
            tokio::select! {
                () = stopping.stopping() => {}
                () = redactor.run() => {}
            }
        });
    }

    pub(crate) fn wake(&self) {
        self.woken.notify_one();
    }

    async fn run(self) {
        loop {
            let pause = match self.round().await {
                Ok(true) => POLL_INTERVAL,
                Ok(false) => {
                    tokio::time::sleep(ROUND_PAUSE).await;
                    continue;
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot redact outdated texts in events; will retry");
                    Duration::from_secs(1)
                }
            };
            tokio::select! {
                () = self.woken.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Processes one batch of each redaction. Returns whether nothing is left.
    pub(crate) async fn round(&self) -> Result<bool, DbError> {
        let (mut after, mut is_done) = (0, true);
        while let Some(redaction) = self.store.next_redaction(after).await? {
            after = redaction.id;
            is_done &= self.batch(&redaction).await?;
        }
        Ok(is_done)
    }

    /// Removes a text from a batch of events. Returns whether it is gone from all events.
    async fn batch(&self, redaction: &Redaction) -> Result<bool, DbError> {
        let mut tx = self.store.db().begin_relaxed().await?;
        lock_repository(&mut tx, redaction.repository).await?;
        let events = redactions::with_text(&mut tx, redaction, BATCH_EVENTS).await?;
        let count = events.len();
        let redacted: Vec<_> = events.into_iter().map(|event| redact(event, redaction.subject)).collect();
        let is_done = redactions::store(&mut tx, redaction, &redacted).await?;
        tx.commit().await?;
        metrics::counter!("ferrite_hook_redacted_events_total").increment(count as u64);
        Ok(is_done)
    }
}

fn redact(mut event: StoredEvent, subject: Subject) -> RedactedEvent {
    let paths: &[TextPath] = match (subject, event.name.as_str()) {
        (Subject::Issue(_), "issues") => &[ISSUE_TEXT, TEXT_BEFORE],
        (Subject::Issue(_), "pull_request") => &[PULL_TEXT, TEXT_BEFORE],
        (Subject::Issue(_), "issue_comment") => &[ISSUE_TEXT],
        // Reviews.
        (Subject::Issue(_), _) => &[PULL_TEXT],
        (Subject::Comment(_), _) => &[COMMENT_TEXT, TEXT_BEFORE],
        (Subject::Review(_), _) => &[REVIEW_TEXT],
    };
    subject.remove_from(&mut event.fact);
    let payload = event.payload.and_then(|payload| match without_texts(&payload, paths) {
        Ok(payload) => Some(payload),
        // Drop the unreadable payload. It is rendered again from the fact.
        Err(error) => {
            tracing::error!(%error, event.id, "unreadable payload; it will be rendered again");
            None
        }
    });
    RedactedEvent { id: event.id, fact: event.fact, payload }
}
