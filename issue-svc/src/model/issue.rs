use ferrite_markdown::commit::Action;
use ferrite_proto::id::{IssueId, OrganizationId, RepositoryId, UserId};

use super::pull::{NewPullRequest, PullRequest};
use super::review_request::Requested;
use super::text::{Body, Color, LabelDescription, LabelName, Title};

/// Lists and counts are kept per class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Class {
    pub(crate) is_pull_request: bool,
    pub(crate) is_closed: bool,
}

impl Class {
    /// The class as a number in tables.
    pub(crate) fn number(self) -> i64 {
        i64::from(self.is_pull_request) * 2 + i64::from(self.is_closed)
    }

    pub(crate) fn from_number(number: i64) -> Self {
        Self { is_pull_request: number & 2 != 0, is_closed: number & 1 != 0 }
    }

    /// Returns how much an issue of this class adds to the number of open issues, which excludes
    /// pull requests.
    pub(crate) fn open_issues(self) -> i64 {
        i64::from(!self.is_pull_request && !self.is_closed)
    }

    /// Returns how much an issue of this class adds to the number of open pull requests.
    pub(crate) fn open_pulls(self) -> i64 {
        i64::from(self.is_pull_request && !self.is_closed)
    }
}

/// An issue or pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Issue {
    pub(crate) id: IssueId,
    pub(crate) repository: RepositoryId,
    /// Number within the repository, from 1. Never reused.
    pub(crate) number: i64,
    pub(crate) author: UserId,
    pub(crate) title: String,
    pub(crate) body: String,
    /// Whether `body` was cut, for a list.
    pub(crate) is_truncated: bool,
    pub(crate) class: Class,
    /// Without duplicates.
    pub(crate) assignees: Vec<UserId>,
    /// Zero for none. The milestone may just have been deleted.
    pub(crate) milestone_id: i64,
    /// In whole seconds.
    pub(crate) due_us: Option<i64>,
    pub(crate) comment_count: i64,
    pub(crate) created_us: i64,
    pub(crate) updated_us: i64,
    pub(crate) closed_us: Option<i64>,
}

/// An issue with its labels, milestone, branches and reviewers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FullIssue {
    pub(crate) issue: Issue,
    /// By name.
    pub(crate) labels: Vec<Label>,
    pub(crate) milestone: Option<Milestone>,
    pub(crate) pull_request: Option<PullRequest>,
    /// Who is asked for a review, in that order.
    pub(crate) requests: Vec<Requested>,
}

#[derive(Clone, Debug)]
pub(crate) struct NewIssue {
    pub(crate) repository: RepositoryId,
    /// The organization that owns the repository, according to the caller's grant.
    pub(crate) organization: Option<OrganizationId>,
    pub(crate) author: UserId,
    pub(crate) title: Title,
    pub(crate) body: Body,
    pub(crate) is_closed: bool,
    /// Without duplicates.
    pub(crate) assignees: Vec<UserId>,
    /// Zero for none.
    pub(crate) milestone_id: i64,
    /// In whole seconds.
    pub(crate) due_us: Option<i64>,
    /// Without duplicates.
    pub(crate) label_ids: Vec<i64>,
    /// Set for a pull request.
    pub(crate) pull_request: Option<NewPullRequest>,
}

/// A change of an issue. `None` keeps the current value.
#[derive(Clone, Debug, Default)]
pub(crate) struct IssueChange {
    pub(crate) title: Option<Title>,
    pub(crate) body: Option<Body>,
    /// Without duplicates. Nobody removes all.
    pub(crate) assignees: Option<Vec<UserId>>,
    /// Zero removes the milestone.
    pub(crate) milestone_id: Option<i64>,
    /// In whole seconds. The inner `None` removes the date.
    pub(crate) due_us: Option<Option<i64>>,
    pub(crate) is_closed: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Comment {
    pub(crate) id: i64,
    pub(crate) repository: RepositoryId,
    pub(crate) issue_id: i64,
    pub(crate) issue_number: i64,
    pub(crate) is_pull_request: bool,
    /// Position among all comments of the repository.
    pub(crate) sequence: i64,
    pub(crate) author: UserId,
    pub(crate) body: String,
    /// Whether `body` was cut, for a list.
    pub(crate) is_truncated: bool,
    pub(crate) created_us: i64,
    pub(crate) updated_us: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) id: i64,
    pub(crate) owner: LabelOwner,
    pub(crate) name: String,
    /// Six hexadecimal digits.
    pub(crate) color: String,
    pub(crate) description: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewLabel {
    pub(crate) name: LabelName,
    pub(crate) color: Color,
    pub(crate) description: LabelDescription,
}

/// Changes of a label. `None` leaves a field as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LabelEdit {
    pub(crate) name: Option<LabelName>,
    pub(crate) color: Option<Color>,
    pub(crate) description: Option<LabelDescription>,
}

/// The owner of a label. Labels of an organization are for the issues of all its repositories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LabelOwner {
    Repository(RepositoryId),
    Organization(OrganizationId),
}

impl Label {
    /// Whether it is for the issues of several repositories.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.owner, LabelOwner::Organization(_))
    }

    /// Sorts labels like lists of them.
    pub(crate) fn sort(labels: &mut [Self]) {
        labels.sort_by_cached_key(|label| (label.name.to_lowercase(), label.id));
    }
}

impl LabelOwner {
    /// Returns what stands for the owner in rows where usually a repository has its id: an
    /// organization has its id negated.
    pub(crate) fn row(self) -> RepositoryId {
        match self {
            Self::Repository(id) => id,
            Self::Organization(id) => RepositoryId(-id.0),
        }
    }

    pub(crate) fn of_row(id: i64) -> Self {
        match id {
            ..0 => Self::Organization(OrganizationId(-id)),
            0.. => Self::Repository(RepositoryId(id)),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Milestone {
    pub(crate) id: i64,
    pub(crate) repository: RepositoryId,
    pub(crate) title: String,
    pub(crate) description: String,
    /// Whether `description` was cut, for a list.
    pub(crate) is_truncated: bool,
    pub(crate) is_closed: bool,
    pub(crate) due_us: Option<i64>,
    pub(crate) closed_us: Option<i64>,
    pub(crate) created_us: i64,
    pub(crate) open_count: i64,
    pub(crate) closed_count: i64,
}

/// The effect of a commit on an issue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommitAction {
    /// The repository of the commit.
    pub(crate) source: RepositoryId,
    /// 40 hexadecimal digits.
    pub(crate) commit_id: String,
    /// The number of the issue.
    pub(crate) number: i64,
    pub(crate) action: Action,
}
