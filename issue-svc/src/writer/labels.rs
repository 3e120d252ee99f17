//! Labels of repositories and of issues.

use std::collections::BTreeSet;

use ferrite_proto::error::FieldViolation;
use ferrite_proto::events::IssueAction;
use ferrite_proto::id::UserId;
use ferrite_proto::issue::{LabelChange, ListIssueLabelsResponse, TimelineAction};
use ferrite_rpc::version::is_conditional;

use super::Write;
use crate::encode;
use crate::error::IssueError;
use crate::model::{Color, Issue, Label, LabelName};
use crate::store::{CounterChange, Deleted, List, Reader, TallyChanges, TimelineEntry};

pub(crate) const MAX_REPOSITORY_LABELS: i64 = 1000;
pub(crate) const MAX_ISSUE_LABELS: usize = 100;

impl Write<'_> {
    /// Adds a label to the repository. The write must have begun with one more label.
    pub(crate) async fn add_label(&mut self, name: &LabelName, color: &Color) -> Result<Label, IssueError> {
        if self.counters.label_count > MAX_REPOSITORY_LABELS {
            return Err(IssueError::TooManyLabels);
        }
        let label = self.writer.store.insert_label(&mut self.tx, self.repository, name, color).await?;
        label.ok_or_else(|| IssueError::LabelExists { name: name.as_str().to_owned() })
    }

    /// Checks the request's precondition against the labels of an issue.
    pub(crate) async fn require_issue_labels(&mut self, issue: &Issue) -> Result<(), IssueError> {
        if is_conditional() {
            let labels = self.complete(issue.clone()).await?.labels;
            let labels = ListIssueLabelsResponse { labels: labels.into_iter().map(encode::label).collect() };
            self.tx.require_version(Some(&labels))?;
        }
        Ok(())
    }

    /// Returns a label, after checking the request's precondition against it.
    async fn required_label(&mut self, id: i64) -> Result<Label, IssueError> {
        let label = self.writer.store.label(Reader::Tx(&mut self.tx), self.repository, id).await?;
        let label = label.ok_or(IssueError::LabelNotFound)?;
        self.tx.require_version(Some(&encode::label(label.clone())))?;
        Ok(label)
    }

    pub(crate) async fn change_label(
        &mut self,
        id: i64,
        name: Option<&LabelName>,
        color: Option<&Color>,
    ) -> Result<Label, IssueError> {
        let label = self.required_label(id).await?;
        let store = &self.writer.store;
        let new = Label {
            name: name.map_or(label.name, |name| name.as_str().to_owned()),
            color: color.map_or(label.color, |color| color.as_str().to_owned()),
            ..label
        };
        if let Some(name) = name {
            let same = store.label_named(Reader::Tx(&mut self.tx), self.repository, name.as_str()).await?;
            if same.is_some_and(|same| same.id != id) {
                return Err(IssueError::LabelExists { name: name.as_str().to_owned() });
            }
        }
        store.update_label(&mut self.tx, &new).await?;
        Ok(new)
    }

    /// Deletes a label from the repository and its issues.
    pub(crate) async fn delete_label(&mut self, id: i64) -> Result<(), IssueError> {
        if is_conditional() {
            self.required_label(id).await?;
        }
        if !self.writer.store.delete_label(&mut self.tx, self.repository, id).await? {
            return Err(IssueError::LabelNotFound);
        }
        let change = CounterChange { labels: -1, ..CounterChange::default() };
        self.writer.store.advance(&mut self.tx, self.repository, change).await?;
        self.purge_first_batch(Deleted::Label(self.repository, id)).await
    }

    /// Changes the labels of an issue and returns all its labels by name. Labels to add must exist
    /// ([`IssueError::Invalid`]), as must labels to remove ([`IssueError::LabelNotFound`]).
    pub(crate) async fn change_labels(
        &mut self,
        issue: &Issue,
        change: LabelChange,
        ids: &BTreeSet<i64>,
        actor: UserId,
    ) -> Result<Vec<Label>, IssueError> {
        let store = &self.writer.store;
        let tied: BTreeSet<i64> = store.tied_labels(&mut self.tx, issue).await?.into_iter().collect();
        let mentioned: Vec<i64> = tied.union(ids).copied().collect();
        let known = store.labels_matching(Reader::Tx(&mut self.tx), self.repository, &mentioned, &[]).await?;
        if !ids.iter().all(|id| known.iter().any(|label| label.id == *id)) {
            return Err(match change {
                LabelChange::Remove => IssueError::LabelNotFound,
                _ => FieldViolation::new("labels", "unknown", "no such label in this repository").into(),
            });
        }
        let (added, removed): (Vec<i64>, Vec<i64>) = match change {
            LabelChange::Add => (ids.difference(&tied).copied().collect(), Vec::new()),
            LabelChange::Remove => (Vec::new(), ids.intersection(&tied).copied().collect()),
            LabelChange::Replace | LabelChange::Unspecified => {
                (ids.difference(&tied).copied().collect(), tied.difference(ids).copied().collect())
            }
        };
        let is_left =
            |label: &Label| (tied.contains(&label.id) || added.contains(&label.id)) && !removed.contains(&label.id);
        let left: Vec<Label> = known.iter().filter(|label| is_left(label)).cloned().collect();
        if left.len() > MAX_ISSUE_LABELS {
            return Err(FieldViolation::new("labels", "too_many", "an issue can have at most 100 labels").into());
        }
        if !added.is_empty() || !removed.is_empty() {
            self.tie(issue, &added, &removed).await?;
            let entries = entries(&known, &added, &removed, actor, self.now_us);
            self.writer.store.add_entries(&mut self.tx, issue.id, &entries).await?;
            let is_cleared = change == LabelChange::Replace && ids.is_empty();
            let action = if is_cleared { IssueAction::LabelCleared } else { IssueAction::LabelUpdated };
            let new = self.complete(Issue { updated_us: self.now_us, ..issue.clone() }).await?;
            self.tell_issue(&[action], None, &new, actor);
        }
        Ok(left)
    }

    async fn tie(&mut self, issue: &Issue, added: &[i64], removed: &[i64]) -> Result<(), IssueError> {
        let store = &self.writer.store;
        store.remove_labels(&mut self.tx, issue, removed).await?;
        store.add_labels(&mut self.tx, issue, added).await?;
        let mut changes = TallyChanges::default();
        for (ids, by) in [(added, 1), (removed, -1)] {
            for id in ids {
                changes.add(List::Label(*id), issue.class, issue.number, by);
            }
        }
        store.tally(&mut self.tx, self.repository, changes).await?;
        store.touch(&mut self.tx, issue.id, 0, self.now_us).await?;
        Ok(())
    }
}

/// Returns the timeline entries for changed labels. Deleted labels are removed silently.
fn entries(known: &[Label], added: &[i64], removed: &[i64], actor: UserId, now_us: i64) -> Vec<TimelineEntry> {
    let entry = |label: &Label, action| TimelineEntry {
        label_id: label.id,
        label_color: label.color.clone(),
        old_text: label.name.clone(),
        ..TimelineEntry::new(action, actor, now_us)
    };
    let of = |ids: &[i64], action| -> Vec<TimelineEntry> {
        known.iter().filter(|label| ids.contains(&label.id)).map(|label| entry(label, action)).collect()
    };
    let mut entries = of(removed, TimelineAction::Unlabeled);
    entries.extend(of(added, TimelineAction::Labeled));
    entries
}
