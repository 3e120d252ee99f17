//! Filters and orders of lists, and the indexes from which their rows are read.

use ferrite_proto::id::UserId;

use crate::model::Class;
use crate::store::tallies::List;

/// A condition on a field that may be empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition<T> {
    Is(T),
    /// The field is empty.
    None,
    /// The field is not empty.
    Any,
}

/// An issue must match all of these.
#[derive(Clone, Debug, Default)]
pub(crate) struct IssueFilter {
    /// At least one.
    pub(crate) classes: Vec<Class>,
    /// Without duplicates.
    pub(crate) label_ids: Vec<i64>,
    /// Labels of the organization that owns the repository. Without duplicates.
    pub(crate) shared_label_ids: Vec<i64>,
    pub(crate) assignee: Option<Condition<UserId>>,
    pub(crate) creator: Option<UserId>,
    /// The target branch, for lists of pull requests.
    pub(crate) base_branch: Option<String>,
    /// By id, because several milestones may share a title.
    pub(crate) milestone: Option<Condition<i64>>,
    /// The key of a user name.
    pub(crate) mentioned: Option<String>,
    /// A full-text query in the syntax of the database.
    pub(crate) words: Option<String>,
    pub(crate) since_us: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    /// By number, which is the order of creation.
    Number,
    /// By the last change.
    Updated,
    Comments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) sort: Sort,
    pub(crate) is_ascending: bool,
}

/// The index from which the rows of a list are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A list with stored counts.
    List(List),
    /// Issues of which this user is an assignee, but not the first. [`List::Assignee`] is the union
    /// of both.
    OtherAssignee(UserId),
    AnyAssignee,
    AnyMilestone,
    Mentions,
    Words,
    Changes,
}

impl IssueFilter {
    pub(super) fn label_lists(&self) -> Vec<List> {
        let own = self.label_ids.iter().map(|id| List::Label(*id));
        own.chain(self.shared_label_ids.iter().map(|id| List::SharedLabel(*id))).collect()
    }

    /// Returns the filters with stored counts.
    pub(super) fn lists(&self) -> Vec<List> {
        let mut lists = self.label_lists();
        lists.extend(self.creator.map(List::Creator));
        match self.assignee {
            Some(Condition::Is(user)) => lists.push(List::Assignee(Some(user))),
            Some(Condition::None) => lists.push(List::Assignee(None)),
            Some(Condition::Any) | None => {}
        }
        match self.milestone {
            Some(Condition::Is(id)) => lists.push(List::Milestone(id)),
            Some(Condition::None) => lists.push(List::Milestone(0)),
            Some(Condition::Any) | None => {}
        }
        lists
    }

    /// Returns the list that these filters amount to, if a stored count gives its length.
    pub(super) fn counted(&self) -> Option<List> {
        let is_any = self.assignee == Some(Condition::Any) || self.milestone == Some(Condition::Any);
        if is_any
            || self.base_branch.is_some()
            || self.mentioned.is_some()
            || self.words.is_some()
            || self.since_us.is_some()
        {
            return None;
        }
        match self.lists().as_slice() {
            [] => Some(List::All),
            [one] => Some(*one),
            _ => None,
        }
    }
}

impl Order {
    /// Returns the opposite order.
    pub(super) fn reversed(self) -> Self {
        Self { is_ascending: !self.is_ascending, ..self }
    }

    pub(super) fn clause(self) -> &'static str {
        match (self.sort, self.is_ascending) {
            (Sort::Number, false) => " ORDER BY number DESC",
            (Sort::Number, true) => " ORDER BY number",
            (Sort::Updated, false) => " ORDER BY updated_us DESC, number DESC",
            (Sort::Updated, true) => " ORDER BY updated_us, number",
            (Sort::Comments, false) => " ORDER BY comment_count DESC, number DESC",
            (Sort::Comments, true) => " ORDER BY comment_count, number",
        }
    }

    /// Returns the clause for issues that are joined with other tables.
    pub(super) fn joined_clause(self) -> &'static str {
        match (self.sort, self.is_ascending) {
            (Sort::Number, false) => " ORDER BY issues.number DESC",
            (Sort::Number, true) => " ORDER BY issues.number",
            (Sort::Updated, false) => " ORDER BY issues.updated_us DESC, issues.number DESC",
            (Sort::Updated, true) => " ORDER BY issues.updated_us, issues.number",
            (Sort::Comments, false) => " ORDER BY issues.comment_count DESC, issues.number DESC",
            (Sort::Comments, true) => " ORDER BY issues.comment_count, issues.number",
        }
    }
}

impl Sort {
    /// Returns the id and the columns to order by. Every index of issues contains those for the
    /// order of numbers.
    pub(super) fn columns(self) -> &'static str {
        match self {
            Self::Number => "issues.id, issues.number",
            Self::Updated => "issues.id, issues.number, issues.updated_us",
            Self::Comments => "issues.id, issues.number, issues.comment_count",
        }
    }
}

pub(super) const NEWEST: Order = Order { sort: Sort::Number, is_ascending: false };
