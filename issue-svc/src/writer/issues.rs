use ferrite_proto::error::FieldViolation;
use ferrite_proto::events::IssueAction;
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::issue::TimelineAction;
use ferrite_rpc::version::is_conditional;

use super::labels::{known_labels, no_such_label};
use super::references::TextTargets;
use super::{IssueWriter, Write};
use crate::encode;
use crate::error::IssueError;
use crate::model::{Class, CommitAction, FullIssue, Issue, IssueChange, NewIssue};
use crate::store::{CounterChange, IssueTable, List, MentionSource, Reader, TallyChanges, TimelineEntry};

impl IssueWriter {
    /// Begins a write that opens `new` and assigns its number.
    pub(crate) async fn begin_open(&self, new: &NewIssue) -> Result<Write<'_>, IssueError> {
        let class = Class { is_pull_request: new.pull_request.is_some(), is_closed: new.is_closed };
        let (open, pulls) = (class.open_issues(), class.open_pulls());
        let change = CounterChange { numbers: 1, open, pulls, ..CounterChange::default() };
        self.begin(new.repository, change).await
    }
}

/// What changes an issue, as far as its timeline shows it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cause<'a> {
    Change,
    /// The message of a commit.
    Commit(&'a CommitAction),
    /// The merge of the pull request.
    Merge,
}

fn is_same_set(some: &[UserId], others: &[UserId]) -> bool {
    some.len() == others.len() && some.iter().all(|user| others.contains(user))
}

/// Returns the kind of a change of the due date; `None` if it stayed.
fn due_action(old: Option<i64>, new: Option<i64>) -> Option<TimelineAction> {
    match (old, new) {
        _ if old == new => None,
        (None, _) => Some(TimelineAction::DueDateAdded),
        (Some(_), Some(_)) => Some(TimelineAction::DueDateChanged),
        (Some(_), None) => Some(TimelineAction::DueDateRemoved),
    }
}

/// Returns the lists that contain an issue.
pub(super) fn lists(issue: &Issue, labels: &[i64]) -> Vec<List> {
    let mut lists = vec![List::All, List::Creator(issue.author), List::Milestone(issue.milestone_id)];
    lists.extend(issue.assignees.iter().map(|user| List::Assignee(Some(*user))));
    lists.extend(issue.assignees.is_empty().then_some(List::Assignee(None)));
    lists.extend(labels.iter().map(|id| List::Label(*id)));
    lists
}

impl Write<'_> {
    /// Opens an issue under the number that [`IssueWriter::begin_open`] assigned. `targets` are the
    /// references in its body. The milestone must exist in the repository, the labels also in its
    /// organization.
    pub(crate) async fn open(&mut self, new: &NewIssue, targets: &TextTargets) -> Result<FullIssue, IssueError> {
        let store = &self.writer.store;
        let reader = Reader::Tx(&mut self.tx);
        let milestone = unknown_milestone(store, reader, self.repository, new.milestone_id).await?;
        let owners = self.label_owners(new.organization);
        let labels = known_labels(store, Reader::Tx(&mut self.tx), &owners, &new.label_ids).await?;
        let labels = match (milestone, labels) {
            (None, Ok(labels)) => labels,
            (milestone, labels) => return Err(IssueError::invalid([milestone, labels.err()])),
        };
        if !store.keep_labels(&mut self.tx, &labels).await? {
            return Err(no_such_label().into());
        }
        let issue = store.insert(&mut self.tx, new, self.counters.last_number, self.now_us).await?;
        store.add_labels(&mut self.tx, &issue, &labels).await?;
        store.insert_words(&mut self.tx, &issue).await?;
        let mut changes = TallyChanges::default();
        for list in lists(&issue, &new.label_ids) {
            changes.add(list, issue.class, issue.number, 1);
        }
        store.tally(&mut self.tx, self.repository, changes).await?;
        store.insert_mentions(&mut self.tx, &issue, MentionSource::Body, &targets.mentions).await?;
        self.refer(&issue, targets, new.author).await?;
        self.tell(IssueAction::Opened, &issue, new.author);
        let issue = if new.label_ids.is_empty() && issue.milestone_id == 0 && !issue.class.is_pull_request {
            FullIssue { issue, labels: Vec::new(), milestone: None, pull_request: None, requests: Vec::new() }
        } else {
            self.complete(issue).await?
        };
        self.tell_opened(&issue);
        Ok(issue)
    }

    /// Checks the request's precondition against an issue with its labels, milestone and branches.
    pub(crate) async fn require_issue(&mut self, issue: &Issue) -> Result<(), IssueError> {
        if is_conditional() {
            let full = self.complete(issue.clone()).await?;
            self.tx.require_version(Some(&encode::issue(full)))?;
        }
        Ok(())
    }

    /// Changes an issue and returns it. `targets` are the references in the new body. Does nothing
    /// if the values are unchanged.
    pub(crate) async fn change(
        &mut self,
        old: Issue,
        change: IssueChange,
        targets: &TextTargets,
        actor: UserId,
    ) -> Result<FullIssue, IssueError> {
        if let Some(id) = change.milestone_id.filter(|id| *id != old.milestone_id) {
            let reader = Reader::Tx(&mut self.tx);
            if let Some(violation) = unknown_milestone(&self.writer.store, reader, self.repository, id).await? {
                return Err(violation.into());
            }
        }
        if change.is_closed.is_some() && old.class.is_pull_request {
            self.require_unmerged(&old).await?;
        }
        let mut new = old.clone();
        if let Some(title) = &change.title {
            title.as_str().clone_into(&mut new.title);
        }
        if let Some(body) = &change.body {
            body.as_str().clone_into(&mut new.body);
        }
        // Another order of the same users is no change.
        if let Some(assignees) = change.assignees.filter(|assignees| !is_same_set(assignees, &old.assignees)) {
            new.assignees = assignees;
        }
        new.milestone_id = change.milestone_id.unwrap_or(old.milestone_id);
        new.due_us = change.due_us.unwrap_or(old.due_us);
        new.class.is_closed = change.is_closed.unwrap_or(old.class.is_closed);
        let issue = self.replace(&old, new, actor, Cause::Change).await?;
        if issue.body != old.body {
            let store = &self.writer.store;
            store.delete_mentions(&mut self.tx, issue.id, MentionSource::Body).await?;
            store.insert_mentions(&mut self.tx, &issue, MentionSource::Body, &targets.mentions).await?;
            self.refer(&issue, targets, actor).await?;
        }
        let issue = self.complete(issue).await?;
        self.tell_changes(&old, &issue, actor);
        Ok(issue)
    }

    /// Writes the differences between two states of an issue: the row, counts, search index,
    /// timeline and the event with the number of open issues. The caller reports the change to
    /// hook-svc. Fails before it writes if a pull request cannot be reopened.
    pub(super) async fn replace(
        &mut self,
        old: &Issue,
        mut new: Issue,
        actor: UserId,
        cause: Cause<'_>,
    ) -> Result<Issue, IssueError> {
        if new == *old {
            return Ok(new);
        }
        new.updated_us = self.now_us.max(old.updated_us);
        let is_state_changed = new.class != old.class;
        if is_state_changed && new.class.is_pull_request {
            self.replace_pull_state(&new, actor).await?;
        }
        if is_state_changed {
            new.closed_us = new.class.is_closed.then_some(self.now_us);
        }
        let entries = self.differences(old, &new, actor, cause).await?;
        let store = &self.writer.store;
        store.update(&mut self.tx, &new).await?;
        store.replace_other_assignees(&mut self.tx, old, &new).await?;
        if (&new.title, &new.body) != (&old.title, &old.body) {
            store.update_texts(&mut self.tx, &new).await?;
            store.update_words(&mut self.tx, &new).await?;
        }
        let labels = if is_state_changed { store.tied_labels(&mut self.tx, old).await? } else { Vec::new() };
        let mut changes = TallyChanges::default();
        for (issue, by) in [(old, -1), (&new, 1)] {
            for list in lists(issue, &labels) {
                changes.add(list, issue.class, issue.number, by);
            }
        }
        store.tally(&mut self.tx, self.repository, changes).await?;
        if !labels.is_empty() {
            store.reclassify_labels(&mut self.tx, &new).await?;
        }
        store.add_entries(&mut self.tx, new.id, &entries).await?;
        self.count_open(old, &new, actor).await?;
        Ok(new)
    }

    /// Updates the number of open issues or pull requests after one was closed or reopened.
    async fn count_open(&mut self, old: &Issue, new: &Issue, actor: UserId) -> Result<(), IssueError> {
        let open = new.class.open_issues() - old.class.open_issues();
        let pulls = new.class.open_pulls() - old.class.open_pulls();
        if open != 0 || pulls != 0 {
            let change = CounterChange { open, pulls, ..CounterChange::default() };
            let counters = self.writer.store.advance(&mut self.tx, self.repository, change).await?;
            self.counters = counters.ok_or(IssueError::RepositoryDeleted)?;
            let action = if open + pulls < 0 { IssueAction::Closed } else { IssueAction::Reopened };
            self.tell(action, new, actor);
        }
        Ok(())
    }

    /// Returns the timeline entries for the differences between two states of an issue.
    async fn differences(
        &mut self,
        old: &Issue,
        new: &Issue,
        actor: UserId,
        cause: Cause<'_>,
    ) -> Result<Vec<TimelineEntry>, IssueError> {
        let now_us = self.now_us;
        let entry = |action| TimelineEntry::new(action, actor, now_us);
        let mut entries = Vec::new();
        if old.title != new.title {
            let (old_text, new_text) = (old.title.clone(), new.title.clone());
            entries.push(TimelineEntry { old_text, new_text, ..entry(TimelineAction::Renamed) });
        }
        if old.body != new.body {
            entries.push(entry(TimelineAction::Edited));
        }
        for (from, to, action) in [
            (&old.assignees, &new.assignees, TimelineAction::Unassigned),
            (&new.assignees, &old.assignees, TimelineAction::Assigned),
        ] {
            let changed = from.iter().filter(|user| !to.contains(user));
            entries.extend(changed.map(|user| TimelineEntry { assignee_id: user.0, ..entry(action) }));
        }
        if old.milestone_id != new.milestone_id {
            for (id, action) in
                [(old.milestone_id, TimelineAction::Demilestoned), (new.milestone_id, TimelineAction::Milestoned)]
            {
                let reader = Reader::Tx(&mut self.tx);
                if let Some(milestone) = self.writer.store.milestone(reader, self.repository, id).await? {
                    entries.push(TimelineEntry { old_text: milestone.title, ..entry(action) });
                }
            }
        }
        if let Some(action) = due_action(old.due_us, new.due_us) {
            let text = |due_us: Option<i64>| due_us.map(|due_us| due_us.to_string()).unwrap_or_default();
            let (old_text, new_text) = (text(old.due_us), text(new.due_us));
            entries.push(TimelineEntry { old_text, new_text, ..entry(action) });
        }
        if old.class != new.class {
            let action = if new.class.is_closed { TimelineAction::Closed } else { TimelineAction::Reopened };
            match cause {
                Cause::Change => entries.push(entry(action)),
                Cause::Commit(commit) => {
                    let (commit_id, source_repository_id) = (commit.commit_id.clone(), commit.source.0);
                    entries.push(TimelineEntry { commit_id, source_repository_id, ..entry(action) });
                }
                // The merge has an entry of its own.
                Cause::Merge => {}
            }
        }
        Ok(entries)
    }

    pub(super) async fn complete(&mut self, issue: Issue) -> Result<FullIssue, IssueError> {
        Ok(self.writer.store.complete_one(Reader::Tx(&mut self.tx), issue).await?)
    }
}

/// Returns the violation of a milestone that the repository does not have. Zero stands for none.
pub(crate) async fn unknown_milestone(
    store: &IssueTable,
    reader: Reader<'_>,
    repository: RepositoryId,
    id: i64,
) -> Result<Option<FieldViolation>, IssueError> {
    if id == 0 || store.milestone(reader, repository, id).await?.is_some() {
        return Ok(None);
    }
    Ok(Some(FieldViolation::new("milestone", "unknown", "no such milestone in this repository")))
}
