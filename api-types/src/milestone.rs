//! Milestones.

use ferrite_proto::issue;
use serde::Serialize;

use super::convert::{MissingField, State, Time};
use crate::LongTexts;

crate::shape! {
    /// A milestone of a repository.
    #[derive(Clone, Debug, Serialize)]
    pub struct Milestone {
        id: i64,
        title: String,
        description: String,
        /// True if `description` is cut off.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        truncated: bool,
        state: State,
        open_issues: i64,
        closed_issues: i64,
        closed_at: Option<Time>,
        due_on: Option<Time>,
    }
}

impl Milestone {
    /// Converts a milestone.
    ///
    /// # Errors
    /// If the state or creation time is missing.
    pub fn new(milestone: issue::Milestone) -> Result<Self, MissingField> {
        Ok(Self {
            id: milestone.id,
            state: State::new(milestone.state())?,
            open_issues: milestone.open_issue_count,
            closed_issues: milestone.closed_issue_count,
            closed_at: Time::optional(milestone.close_time, "close_time")?,
            due_on: Time::optional(milestone.due_time, "due_time")?,
            title: milestone.title,
            description: milestone.description,
            truncated: milestone.is_truncated,
        })
    }
}

impl LongTexts for Milestone {
    fn for_each_text(&mut self, visit: &mut dyn FnMut(&mut String, &mut bool)) {
        visit(&mut self.description, &mut self.truncated);
    }
}
