//! Writes change all rows that belong to a change of an issue, comment, review, label or milestone in one
//! transaction. It first locks the counters of the repository and finally stores the event and the
//! response for repeated requests. The RPCs check who may write.

mod comments;
mod commits;
mod facts;
mod issues;
mod labels;
mod milestones;
mod pulls;
mod purge;
mod reactions;
mod references;
mod review_comments;
mod review_requests;
mod reviews;
mod scheduled_merges;
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
pub(crate) use issues::unknown_milestone;
pub(crate) use labels::{IssueLabelChange, MAX_ISSUE_LABELS, known_labels, label_owners};
pub(crate) use milestones::MilestoneChange;
pub(crate) use pulls::{MergeRules, MergeSource, require_open};
pub(crate) use purge::{purge_first_batch, run_purges, wake_purges};
pub(crate) use references::TextTargets;
pub(crate) use reviews::{ReviewDraft, ReviewTargets, Submission, require_content, require_reviewable};
pub(crate) use scheduled_merges::NewScheduledMerge;
pub(crate) use timeline::{TimelineArgs, TimelineTrimmer};

/// Longest wait for repo-svc to receive a change of the number of open issues, which it shows.
/// Under load, a delivery takes longer than the usual moment.
const COUNT_TIMEOUT: Duration = Duration::from_secs(2);
/// Receives the numbers of open issues.
pub(crate) const REPO_SVC: &str = "repo-svc";
/// Receives all changes, for webhooks. Writes do not wait for it.
pub(crate) const HOOK_SVC: &str = "hook-svc";

#[derive(Clone, Debug)]
pub(crate) struct IssueWriter {
    pub(crate) store: IssueTable,
    pub(crate) relay: Relay,
    pub(crate) clock: Clock,
}

impl IssueWriter {
    /// Begins a write to a repository's issues and changes its counters. Fails with
    /// [`IssueError::RepositoryDeleted`] if the repository was deleted.
    pub(crate) async fn begin(&self, repository: RepositoryId, change: CounterChange) -> Result<Write<'_>, IssueError> {
        let mut tx = self.store.db().begin().await?;
        let counters = self.store.advance(&mut tx, repository, change).await?.ok_or(IssueError::RepositoryDeleted)?;
        // Read the clock under the lock, so that times in a repository never go backwards.
        let now_us = self.clock.now_us();
        Ok(Write { writer: self, tx, repository, counters, now_us, event: None, facts: Vec::new() })
    }
}

/// An uncommitted write. Dropping it rolls it back.
pub(crate) struct Write<'a> {
    writer: &'a IssueWriter,
    tx: Tx,
    repository: RepositoryId,
    counters: Counters,
    now_us: i64,
    /// Reports new numbers of open issues or pull requests.
    event: Option<Event>,
    /// Facts for hook-svc, in order.
    facts: Vec<Fact>,
}

impl Write<'_> {
    pub(crate) async fn issue(&mut self, number: i64) -> Result<Issue, IssueError> {
        let issue = self.writer.store.find(Reader::Tx(&mut self.tx), self.repository, number).await?;
        issue.ok_or(IssueError::NotFound { number })
    }

    /// Returns the transaction, for rows that belong to the write but not to its issue.
    pub(crate) fn tx(&mut self) -> &mut Tx {
        &mut self.tx
    }

    /// Returns the time of the write.
    pub(crate) fn now_us(&self) -> i64 {
        self.now_us
    }

    /// Adds the event with the numbers of open issues and pull requests.
    fn tell(&mut self, action: IssueAction, issue: &Issue, actor: UserId) {
        let changed = IssueChanged {
            action: action.into(),
            issue_id: issue.id.0,
            number: issue.number,
            user_id: actor.0,
            open_issue_count: self.counters.open_count,
            version: self.counters.version,
            open_pull_count: Some(self.counters.open_pull_count),
        };
        self.event = Some(outbox::event(self.repository, self.now_us, Fact::IssueChanged(changed)));
    }

    /// Commits the write with its events. Stores the small `response` for repeated requests with
    /// the same key.
    pub(crate) async fn commit<A: Message>(self, key: Option<&IdempotencyKey>, response: A) -> Result<A, IssueError> {
        self.commit_with_subject(key, response, 0).await
    }

    /// Like [`Write::commit`], for a response that may be too large to store. A repeated request
    /// then gets a new response about `subject`, an id or number. Waits until repo-svc has the
    /// number of open issues, so that the client reads the new count.
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
