//! Labels of repositories and of issues.

use std::collections::BTreeSet;

use ferrite_proto::error::FieldViolation;
use ferrite_proto::events::IssueAction;
use ferrite_proto::id::{OrganizationId, UserId};
use ferrite_proto::issue::{LabelChange, ListIssueLabelsResponse, TimelineAction};
use ferrite_rpc::auth::AuthError;
use ferrite_rpc::version::is_conditional;

use super::{IssueWriter, Write};
use crate::encode;
use crate::error::IssueError;
use crate::model::{Issue, Label, LabelEdit, LabelOwner, NewLabel};
use crate::store::{CounterChange, Deleted, IssueTable, List, Reader, TallyChanges, TimelineEntry};

/// Labels of one repository, or of one organization.
const MAX_OWNED_LABELS: i64 = 1000;
pub(crate) const MAX_ISSUE_LABELS: usize = 100;

/// A change of an issue's labels. They are given by id and by name.
#[derive(Clone, Debug)]
pub(crate) struct IssueLabelChange {
    pub(crate) kind: LabelChange,
    pub(crate) ids: BTreeSet<i64>,
    pub(crate) names: Vec<String>,
    /// The organization that owns the repository, according to the caller's grant.
    pub(crate) organization: Option<OrganizationId>,
}

/// Returns the owners whose labels the issues of a repository can have.
pub(crate) fn label_owners(own: LabelOwner, organization: Option<OrganizationId>) -> Vec<LabelOwner> {
    [own].into_iter().chain(organization.map(LabelOwner::Organization)).collect()
}

impl IssueWriter {
    /// Begins a write to the labels of a repository or an organization.
    pub(crate) async fn begin_labels(&self, owner: LabelOwner, change: CounterChange) -> Result<Write<'_>, IssueError> {
        match (self.begin(owner.row(), change).await, owner) {
            (Err(IssueError::RepositoryDeleted), LabelOwner::Organization(_)) => {
                Err(AuthError::OrganizationNotFound.into())
            }
            (begun, _) => begun,
        }
    }
}

impl Write<'_> {
    /// Returns the owner of the labels that this write is about.
    fn owner(&self) -> LabelOwner {
        LabelOwner::of_row(self.repository.0)
    }

    /// Returns the owners whose labels the issues of the repository can have. The grant's
    /// organization does not count if the repository has left it since.
    pub(super) fn label_owners(&self, granted: Option<OrganizationId>) -> Vec<LabelOwner> {
        let is_current = |id: &OrganizationId| [0, id.0].contains(&self.counters.owner_id);
        label_owners(self.owner(), granted.filter(is_current))
    }

    /// Adds a label to its owner. The write must have begun with one more label.
    pub(crate) async fn add_label(&mut self, new: &NewLabel) -> Result<Label, IssueError> {
        let owner = self.owner();
        if self.counters.label_count > MAX_OWNED_LABELS {
            let owner = if matches!(owner, LabelOwner::Repository(_)) { "a repository" } else { "an organization" };
            return Err(IssueError::TooManyLabels { owner });
        }
        let label = self.writer.store.insert_label(&mut self.tx, owner, new).await?;
        label.ok_or_else(|| IssueError::LabelExists { name: new.name.as_str().to_owned() })
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
        let owner = self.owner();
        let label = self.writer.store.label(Reader::Tx(&mut self.tx), owner, id).await?;
        let label = label.ok_or(IssueError::LabelNotFound)?;
        self.tx.require_version(Some(&encode::label(label.clone())))?;
        Ok(label)
    }

    pub(crate) async fn change_label(&mut self, id: i64, edit: &LabelEdit) -> Result<Label, IssueError> {
        let label = self.required_label(id).await?;
        let store = &self.writer.store;
        let new = Label {
            name: edit.name.as_ref().map_or(label.name, |name| name.as_str().to_owned()),
            color: edit.color.as_ref().map_or(label.color, |color| color.as_str().to_owned()),
            description: edit.description.as_ref().map_or(label.description, |text| text.as_str().to_owned()),
            ..label
        };
        if let Some(name) = &edit.name {
            let same = store.label_named(Reader::Tx(&mut self.tx), label.owner, name.as_str()).await?;
            if same.is_some_and(|same| same.id != id) {
                return Err(IssueError::LabelExists { name: name.as_str().to_owned() });
            }
        }
        store.update_label(&mut self.tx, &new).await?;
        Ok(new)
    }

    /// Deletes a label from its owner and from all issues. Wake the purges after the commit.
    pub(crate) async fn delete_label(&mut self, id: i64) -> Result<(), IssueError> {
        if is_conditional() {
            self.required_label(id).await?;
        }
        let owner = self.owner();
        if !self.writer.store.delete_label(&mut self.tx, owner, id).await? {
            return Err(IssueError::LabelNotFound);
        }
        let change = CounterChange { labels: -1, ..CounterChange::default() };
        self.writer.store.advance(&mut self.tx, self.repository, change).await?;
        match owner {
            LabelOwner::Repository(repository) => self.purge_first_batch(Deleted::Label(repository, id)).await,
            // Whoever removes the links locks the counters of their repositories.
            LabelOwner::Organization(_) => Ok(self.writer.store.note_shared_labels(&mut self.tx, &[id]).await?),
        }
    }

    /// Changes the labels of an issue and returns all its labels by name. Labels to add must exist
    /// ([`IssueError::Invalid`]), as must labels to remove ([`IssueError::LabelNotFound`]).
    pub(crate) async fn change_labels(
        &mut self,
        issue: &Issue,
        change: IssueLabelChange,
        actor: UserId,
    ) -> Result<Vec<Label>, IssueError> {
        let IssueLabelChange { kind: change, mut ids, names, organization } = change;
        let store = &self.writer.store;
        let tied: BTreeSet<i64> = store.tied_labels(&mut self.tx, issue).await?.into_iter().collect();
        let mentioned: Vec<i64> = tied.union(&ids).copied().collect();
        let owners = self.label_owners(organization);
        let mut known = store.labels_matching(Reader::Tx(&mut self.tx), &owners, &mentioned, &names).await?;
        let named: Option<Vec<i64>> = names.iter().map(|name| id_named(&known, name)).collect();
        let is_known = ids.iter().all(|id| known.iter().any(|label| label.id == *id));
        match named {
            Some(named) if is_known => ids.extend(named),
            _ if change == LabelChange::Remove => return Err(IssueError::LabelNotFound),
            _ => return Err(no_such_label().into()),
        }
        Label::sort(&mut known);
        let (added, removed): (Vec<i64>, Vec<i64>) = match change {
            LabelChange::Add => (ids.difference(&tied).copied().collect(), Vec::new()),
            LabelChange::Remove => (Vec::new(), ids.intersection(&tied).copied().collect()),
            LabelChange::Replace | LabelChange::Unspecified => {
                (ids.difference(&tied).copied().collect(), tied.difference(&ids).copied().collect())
            }
        };
        let is_left =
            |label: &Label| (tied.contains(&label.id) || added.contains(&label.id)) && !removed.contains(&label.id);
        let left: Vec<Label> = known.iter().filter(|label| is_left(label)).cloned().collect();
        if left.len() > MAX_ISSUE_LABELS {
            return Err(FieldViolation::new("labels", "too_many", "an issue can have at most 100 labels").into());
        }
        if !added.is_empty() || !removed.is_empty() {
            let tied: Vec<Label> = known.iter().filter(|label| added.contains(&label.id)).cloned().collect();
            self.tie(issue, &tied, &removed).await?;
            let entries = entries(&known, &added, &removed, actor, self.now_us);
            self.writer.store.add_entries(&mut self.tx, issue.id, &entries).await?;
            let is_cleared = change == LabelChange::Replace && ids.is_empty();
            let action = if is_cleared { IssueAction::LabelCleared } else { IssueAction::LabelUpdated };
            let new = self.complete(Issue { updated_us: self.now_us, ..issue.clone() }).await?;
            self.tell_issue(&[action], None, &new, actor);
        }
        Ok(left)
    }

    async fn tie(&mut self, issue: &Issue, added: &[Label], removed: &[i64]) -> Result<(), IssueError> {
        let store = &self.writer.store;
        if !store.keep_labels(&mut self.tx, added).await? {
            return Err(no_such_label().into());
        }
        store.remove_labels(&mut self.tx, issue, removed).await?;
        store.add_labels(&mut self.tx, issue, added).await?;
        let mut changes = TallyChanges::default();
        let added = added.iter().map(|label| (label.id, 1));
        for (id, by) in added.chain(removed.iter().map(|id| (*id, -1))) {
            changes.add(List::Label(id), issue.class, issue.number, by);
        }
        store.tally(&mut self.tx, self.repository, changes).await?;
        store.touch(&mut self.tx, issue.id, 0, self.now_us).await?;
        Ok(())
    }
}

/// Returns the id of the label with a name. Of labels with the same name, the last counts, which is
/// that of the repository.
fn id_named(labels: &[Label], name: &str) -> Option<i64> {
    let key = name.to_lowercase();
    labels.iter().rev().find(|label| label.name.to_lowercase() == key).map(|label| label.id)
}

pub(super) fn no_such_label() -> FieldViolation {
    FieldViolation::new("labels", "unknown", "no such label in this repository or its organization")
}

/// Returns the labels with these ids, or the violation if their owners do not have all of them. No
/// id may occur twice.
pub(crate) async fn known_labels(
    store: &IssueTable,
    reader: Reader<'_>,
    owners: &[LabelOwner],
    ids: &[i64],
) -> Result<Result<Vec<Label>, FieldViolation>, IssueError> {
    if ids.is_empty() {
        return Ok(Ok(Vec::new()));
    }
    let labels = store.labels_matching(reader, owners, ids, &[]).await?;
    Ok(if labels.len() == ids.len() { Ok(labels) } else { Err(no_such_label()) })
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
