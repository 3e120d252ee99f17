use ferrite_rpc::version::is_conditional;

use super::Write;
use crate::encode;
use crate::error::IssueError;
use crate::model::{Description, Milestone, MilestoneTitle};
use crate::store::{CounterChange, Deleted, Reader};

pub(crate) const MAX_REPOSITORY_MILESTONES: i64 = 10_000;

/// A change of a milestone. `None` keeps the current value.
#[derive(Clone, Debug, Default)]
pub(crate) struct MilestoneChange {
    pub(crate) title: Option<MilestoneTitle>,
    pub(crate) description: Option<Description>,
    pub(crate) is_closed: Option<bool>,
    /// The inner `None` removes the date.
    pub(crate) due_us: Option<Option<i64>>,
}

impl Write<'_> {
    /// Adds a milestone to the repository. The write must have begun with one more milestone.
    pub(crate) async fn add_milestone(
        &mut self,
        title: &MilestoneTitle,
        description: &Description,
        due_us: Option<i64>,
    ) -> Result<Milestone, IssueError> {
        if self.counters.milestone_count > MAX_REPOSITORY_MILESTONES {
            return Err(IssueError::TooManyMilestones);
        }
        let (repository, now_us) = (self.repository, self.now_us);
        let store = &self.writer.store;
        let (title, description) = (title.as_str(), description.as_str());
        Ok(store.insert_milestone(&mut self.tx, repository, title, description, due_us, now_us).await?)
    }

    /// Returns the milestone with the id, or else with the title, which may be empty, after checking
    /// the request's precondition against it.
    async fn required_milestone(&mut self, id: i64, or_title: &str) -> Result<Milestone, IssueError> {
        let (store, repository) = (&self.writer.store, self.repository);
        let mut milestone = store.milestone(Reader::Tx(&mut self.tx), repository, id).await?;
        if milestone.is_none()
            && !or_title.is_empty()
            && let Some(named) = store.milestone_named(Reader::Tx(&mut self.tx), repository, or_title).await?
        {
            milestone = store.milestone(Reader::Tx(&mut self.tx), repository, named).await?;
        }
        let milestone = milestone.ok_or(IssueError::MilestoneNotFound)?;
        if is_conditional() {
            self.tx.require_version(Some(&encode::milestone(milestone.clone())))?;
        }
        Ok(milestone)
    }

    /// Changes a milestone. Closing it again keeps its closing time.
    pub(crate) async fn change_milestone(
        &mut self,
        id: i64,
        or_title: &str,
        change: MilestoneChange,
    ) -> Result<Milestone, IssueError> {
        let old = self.required_milestone(id, or_title).await?;
        let is_closed = change.is_closed.unwrap_or(old.is_closed);
        let closed_us = match (old.is_closed, is_closed) {
            (true, true) => old.closed_us,
            (false, true) => Some(self.now_us),
            (_, false) => None,
        };
        let new = Milestone {
            title: change.title.map_or(old.title, |title| title.as_str().to_owned()),
            description: change.description.map_or(old.description, |text| text.as_str().to_owned()),
            due_us: change.due_us.unwrap_or(old.due_us),
            is_closed,
            closed_us,
            ..old
        };
        self.writer.store.update_milestone(&mut self.tx, &new).await?;
        Ok(new)
    }

    /// Deletes a milestone from the repository and its issues.
    pub(crate) async fn delete_milestone(&mut self, id: i64, or_title: &str) -> Result<(), IssueError> {
        let id = self.required_milestone(id, or_title).await?.id;
        if !self.writer.store.delete_milestone(&mut self.tx, self.repository, id).await? {
            return Err(IssueError::MilestoneNotFound);
        }
        let change = CounterChange { milestones: -1, ..CounterChange::default() };
        self.writer.store.advance(&mut self.tx, self.repository, change).await?;
        self.purge_first_batch(Deleted::Milestone(self.repository, id)).await
    }
}
