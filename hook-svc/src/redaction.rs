//! The background task that takes texts out of stored events which were changed or deleted after they were told: from what feeds show, and
//! from what webhooks are sent from then on.
//!
//! In small batches, each under the lock of the repository's row. Repositories take turns. Several processes may do it: the second one
//! finds nothing left.
//!
//! Not here: which texts these are, and the note of them (`store::redactions`).

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use ferrite_core::Lifecycle;
use ferrite_db::DbError;
use tokio::sync::Notify;

use crate::model::Subject;
use crate::payload::redact::{COMMENT_TEXT, ISSUE_TEXT, TEXT_BEFORE, TextPath, without_texts};
use crate::store::events::{EventTable, StoredEvent, lock_repository};
use crate::store::redactions::{self, RedactedEvent, Redaction};

/// Events of one batch. A payload may have 1 MiB.
const BATCH_EVENTS: i64 = 16;
/// Pause after a round that left something, in which writers go first.
const ROUND_PAUSE: Duration = Duration::from_millis(20);
/// Time between two looks without a wake-up: another process may have stopped before it was done.
const POLL_INTERVAL: Duration = Duration::from_secs(10);

/// Takes outdated texts out of events.
#[derive(Clone, Debug)]
pub(crate) struct Redactor {
    store: EventTable,
    woken: Arc<Notify>,
}

impl Redactor {
    /// Creates the task for the events of `store`.
    pub(crate) fn new(store: EventTable) -> Self {
        Self { store, woken: Arc::default() }
    }

    /// Starts the task, until `life` stops.
    pub(crate) fn start(&self, life: &Lifecycle) {
        let (redactor, stopping) = (self.clone(), life.clone());
        life.spawn("redaction", async move {
            tokio::select! {
                () = stopping.stopping() => {}
                () = redactor.run() => {}
            }
        });
    }

    /// Makes the task look for texts at once.
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
                    tracing::warn!(%error, "outdated texts cannot be taken out of events; trying again later");
                    Duration::from_secs(1)
                }
            };
            tokio::select! {
                () = self.woken.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Takes one batch for each of the redactions. Returns whether nothing is left.
    pub(crate) async fn round(&self) -> Result<bool, DbError> {
        let (mut after, mut is_done) = (0, true);
        while let Some(redaction) = self.store.next_redaction(after).await? {
            after = redaction.id;
            is_done &= self.batch(&redaction).await?;
        }
        Ok(is_done)
    }

    /// Takes a text out of a batch of events. Returns whether no event has it any more.
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

/// Returns an event without the text of the subject.
fn redact(mut event: StoredEvent, subject: Subject) -> RedactedEvent {
    let paths: &[TextPath] = match (subject, event.name.as_str()) {
        (Subject::Issue(_), "issues") => &[ISSUE_TEXT, TEXT_BEFORE],
        (Subject::Issue(_), _) => &[ISSUE_TEXT],
        (Subject::Comment(_), _) => &[COMMENT_TEXT, TEXT_BEFORE],
    };
    subject.remove_from(&mut event.fact);
    let payload = event.payload.and_then(|payload| match without_texts(&payload, paths) {
        Ok(payload) => Some(payload),
        // A payload that cannot be read is made again, of the fact.
        Err(error) => {
            tracing::error!(%error, event.id, "a payload cannot be read");
            None
        }
    });
    RedactedEvent { id: event.id, fact: event.fact, payload }
}
