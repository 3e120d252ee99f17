//! Events about repositories. Those of a batch of updates also point HEAD to an existing branch;
//! other parts of this service write theirs in their own transactions. All events of a repository
//! take the same path, so they stay in order.

use ferrite_db::{DbError, Tx};
use ferrite_events as outbox;
use ferrite_proto::{
    events::{self, RefUpdate, RefsUpdated, event::Fact},
    id::RepositoryId,
};
use git_store::{
    repo::refs::HeadState,
    types::name::{BranchName, MAX_BRANCH, RefName},
};
use prost::Message as _;

use super::{
    subscribers::subscribers,
    updater::{AppliedEdit, BatchOutcome, Inner, RefUpdater},
};
use crate::{
    db::{NewBatch, ZERO},
    rpc_error::RpcError,
};

/// Approximate size limit of one event, because several share one gRPC message.
const MAX_EVENT_BYTES: usize = 48 << 10;
/// Preferred branches for HEAD if the branch it names does not exist.
const PREFERRED_DEFAULT_BRANCHES: &[&[u8]] = &[b"main", b"master"];

/// Rows and events written by the confirming transaction.
pub(super) struct BatchFacts {
    pub(super) batch: NewBatch,
    pub(super) dropped: Vec<i64>,
    pub(super) events: Vec<RefsUpdated>,
}

impl RefUpdater {
    /// Appends an event about a repository to the outbox. Call [`RefUpdater::wake_relay`] after the
    /// commit.
    pub(crate) async fn announce(&self, tx: &mut Tx, id: RepositoryId, fact: Fact) -> Result<(), DbError> {
        let (now, subscribers) = (self.inner().clock.now_us(), subscribers(&fact));
        outbox::append(tx, &outbox::event(id, now, fact), subscribers, now).await
    }

    /// Starts delivering the events of committed transactions now.
    pub(crate) fn wake_relay(&self) {
        self.inner().relay.wake();
    }
}

impl Inner {
    /// Builds the events of a batch from the repository's current state (size, HEAD, emptiness).
    pub(super) async fn batch_facts(&self, id: RepositoryId, outcome: BatchOutcome) -> Result<BatchFacts, RpcError> {
        let (head, usage) = match outcome.state {
            Some(state) => state,
            None => self.refs.head_and_usage(id).await?,
        };
        self.backlogs.record(id, &usage);
        let size = usage.bytes;
        // HEAD has a tip, so a branch exists and the refs need not be read.
        let is_empty = head.tip.is_none() && self.refs.is_empty(id).await?;
        let branch = self.resolve_head(id, head, &outcome.done).await?;
        let whole = RefsUpdated {
            updates: Vec::new(),
            user_id: outcome.user,
            kind: outcome.kind.to_event().into(),
            number: outcome.batch.number,
            size_bytes: i64::try_from(size).unwrap_or(i64::MAX),
            is_empty,
            default_branch: branch.as_bytes().to_vec(),
            push_options: outcome.options.lines().to_vec(),
            issue_reach: events::IssueReach::from(outcome.issue_reach).into(),
            merge: outcome.merge,
        };
        // Reserve room for the largest values of fields that may differ when the batch is confirmed
        // again after a crash, so that the events are split in the same way.
        let most = RefsUpdated { size_bytes: i64::MAX, is_empty: true, default_branch: Vec::new(), ..whole.clone() };
        let taken = most.encoded_len() + MAX_BRANCH;
        let events = split_into_events(outcome.done, taken)
            .into_iter()
            .map(|updates| RefsUpdated { updates, ..whole.clone() })
            .collect();
        Ok(BatchFacts { batch: outcome.batch, dropped: outcome.dropped, events })
    }

    /// Points HEAD to a branch of this batch if the branch it names does not exist. Returns the
    /// branch of HEAD afterwards.
    async fn resolve_head(
        &self,
        id: RepositoryId,
        head: HeadState,
        done: &[AppliedEdit],
    ) -> Result<BranchName, RpcError> {
        if head.tip.is_some() {
            return Ok(head.branch);
        }
        let names = done.iter().filter(|done| done.new != ZERO);
        let branches: Vec<_> =
            names.filter_map(|done| RefName::parse(&done.name).ok().and_then(|name| name.branch())).collect();
        let usual = PREFERRED_DEFAULT_BRANCHES
            .iter()
            .find_map(|name| branches.iter().find(|branch| branch.as_bytes() == *name));
        let Some(branch) = usual.or(branches.first()) else { return Ok(head.branch) };
        self.refs.set_head(id, branch.clone()).await?;
        Ok(branch.clone())
    }
}

/// Splits updates to fit into events whose other fields take `taken` bytes. Returns no parts for no
/// updates.
fn split_into_events(done: Vec<AppliedEdit>, taken: usize) -> Vec<Vec<RefUpdate>> {
    let mut parts = Vec::new();
    let mut room = 0;
    for done in done {
        let update = RefUpdate { name: done.name, old_id: done.old, new_id: done.new };
        let size = update.encoded_len() + 4;
        if size > room {
            parts.push(Vec::new());
            room = MAX_EVENT_BYTES.saturating_sub(taken).max(size);
        }
        room -= size;
        if let Some(part) = parts.last_mut() {
            part.push(update);
        }
    }
    parts
}
