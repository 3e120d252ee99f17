//! Writes: which rows change together when an issue, comment, label or milestone does. A write is one transaction, which begins by
//! locking the counters of its repository and ends with the event and the response for a repeat.
//!
//! Not here: who may write (`rpc`), and SQL (`store`).

mod comments;
mod commits;
mod facts;
mod issues;
mod labels;
mod milestones;
mod purge;
mod references;
#[cfg(test)]
mod tests;
mod timeline;

use std::time::Duration;

use ferrite_core::Clock;
use ferrite_db::Tx;
use ferrite_db::idempotency::IdempotencyKey;
use ferrite_events as outbox;
use ferrite_events::Relay;
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::{Event, IssueAction, IssueChanged};
use ferrite_proto::id::{RepositoryId, UserId};
use prost::Message;

use crate::error::IssueError;
use crate::model::Issue;
use crate::store::{CounterChange, Counters, IssueTable, Reader};

pub(crate) use commits::ApplyReferences;
pub(crate) use labels::MAX_ISSUE_LABELS;
pub(crate) use milestones::MilestoneChange;
pub(crate) use purge::{purge_first_batch, run_purges};
pub(crate) use references::TextTargets;
pub(crate) use timeline::{TimelineArgs, TimelineTrimmer};

/// Longest time that a change of the number of open issues waits until repo-svc has it, which shows it. Under load a delivery takes
/// longer than the usual moment.
const COUNT_TIMEOUT: Duration = Duration::from_secs(2);
/// Subscriber to the numbers of open issues.
pub(crate) const REPO_SVC: &str = "repo-svc";
/// Subscriber to all changes, for webhooks. No write waits for it.
pub(crate) const HOOK_SVC: &str = "hook-svc";

/// Makes writes.
#[derive(Clone, Debug)]
pub(crate) struct IssueWriter {
    pub(crate) store: IssueTable,
    pub(crate) relay: Relay,
    pub(crate) clock: Clock,
}

impl IssueWriter {
    /// Begins a write to a repository's issues and changes its counters.
    ///
    /// # Errors
    /// [`IssueError::RepositoryDeleted`], or a failure of the database.
    pub(crate) async fn begin(&self, repository: RepositoryId, change: CounterChange) -> Result<Write<'_>, IssueError> {
        let mut tx = self.store.db().begin().await?;
        let counters = self.store.advance(&mut tx, repository, change).await?.ok_or(IssueError::RepositoryDeleted)?;
        // Read under the lock, so that what comes later in a repository never has an earlier time.
        let now_us = self.clock.now_us();
        Ok(Write { writer: self, tx, repository, counters, now_us, event: None, facts: Vec::new() })
    }
}

/// A write that is not committed yet. Dropped, it changes nothing.
pub(crate) struct Write<'a> {
    writer: &'a IssueWriter,
    tx: Tx,
    repository: RepositoryId,
    counters: Counters,
    now_us: i64,
    /// The event of a change in the number of open issues.
    event: Option<Event>,
    /// Facts for hook-svc, in order.
    facts: Vec<Fact>,
}

impl Write<'_> {
    /// Returns an issue of the repository.
    ///
    /// # Errors
    /// [`IssueError::NotFound`], or a failure of the database.
    pub(crate) async fn issue(&mut self, number: i64) -> Result<Issue, IssueError> {
        let issue = self.writer.store.find(Reader::Tx(&mut self.tx), self.repository, number).await?;
        issue.ok_or(IssueError::NotFound { number })
    }

    /// Notes the event of a change in the number of open issues.
    fn tell(&mut self, action: IssueAction, issue: &Issue, actor: UserId) {
        let changed = IssueChanged {
            action: action.into(),
            issue_id: issue.id.0,
            number: issue.number,
            user_id: actor.0,
            open_issue_count: self.counters.open_count,
            version: self.counters.version,
        };
        self.event = Some(outbox::event(self.repository, self.now_us, Fact::IssueChanged(changed)));
    }

    /// Commits the write together with its events, and with `response`, which is always a small one, for a request that is repeated with the
    /// same key.
    ///
    /// # Errors
    /// A failure of the database.
    pub(crate) async fn commit<A: Message>(self, key: Option<&IdempotencyKey>, response: A) -> Result<A, IssueError> {
        self.commit_with_subject(key, response, 0).await
    }

    /// As [`Write::commit`], for a response that may be too large to be stored: `subject` is the id or number of what it shows, of which a
    /// repeated request gets it anew. Waits until repo-svc has the number of open issues, so that a client that writes and then reads sees
    /// the new count.
    ///
    /// # Errors
    /// A failure of the database.
    pub(crate) async fn commit_with_subject<A: Message>(
        mut self,
        key: Option<&IdempotencyKey>,
        response: A,
        subject: i64,
    ) -> Result<A, IssueError> {
        let is_told = !self.facts.is_empty();
        for fact in std::mem::take(&mut self.facts) {
            let event = outbox::event(self.repository, self.now_us, fact);
            outbox::append(&mut self.tx, &event, &[HOOK_SVC], self.now_us).await?;
        }
        if let Some(key) = key {
            key.store_with_subject(&mut self.tx, &response, &subject, self.now_us).await?;
        }
        let relay = &self.writer.relay;
        let flush = match &self.event {
            Some(event) => Some(relay.commit(self.tx, event, &[REPO_SVC], &[REPO_SVC], self.now_us).await?),
            None => {
                self.tx.commit().await?;
                None
            }
        };
        if is_told {
            relay.wake_one(HOOK_SVC);
        }
        if let Some(flush) = flush {
            flush.wait_at_most(COUNT_TIMEOUT).await;
        }
        Ok(response)
    }
}
