//! Issues, pull requests, comments, labels and milestones as they are stored, the classes of issues, and what commits do to issues.

use ferrite_markdown::commit::Action;
use ferrite_proto::id::{IssueId, RepositoryId, UserId};

use super::text::{Body, Title};

/// The class of an issue, by which lists are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Class {
    pub(crate) is_pull_request: bool,
    pub(crate) is_closed: bool,
}

impl Class {
    /// Returns the number that stands for the class in tables.
    pub(crate) fn number(self) -> i64 {
        i64::from(self.is_pull_request) * 2 + i64::from(self.is_closed)
    }

    /// Returns the class of a number in tables.
    pub(crate) fn from_number(number: i64) -> Self {
        Self { is_pull_request: number & 2 != 0, is_closed: number & 1 != 0 }
    }

    /// Returns the number of open plain issues that one issue of this class is.
    pub(crate) fn open_issues(self) -> i64 {
        i64::from(!self.is_pull_request && !self.is_closed)
    }
}

/// An issue or pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Issue {
    pub(crate) id: IssueId,
    pub(crate) repository: RepositoryId,
    /// Number within the repository: from 1, never reused.
    pub(crate) number: i64,
    pub(crate) author: UserId,
    pub(crate) title: String,
    pub(crate) body: String,
    /// True if `body` is the beginning only, in lists.
    pub(crate) is_truncated: bool,
    pub(crate) class: Class,
    pub(crate) assignee: Option<UserId>,
    /// The milestone's id; zero for none. It may have been deleted a moment ago.
    pub(crate) milestone_id: i64,
    pub(crate) comment_count: i64,
    pub(crate) created_us: i64,
    pub(crate) updated_us: i64,
    pub(crate) closed_us: Option<i64>,
}

/// An issue with everything that shows in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FullIssue {
    pub(crate) issue: Issue,
    /// By name.
    pub(crate) labels: Vec<Label>,
    pub(crate) milestone: Option<Milestone>,
    pub(crate) pull_request: Option<PullRequest>,
}

/// An issue that has no number yet.
#[derive(Clone, Debug)]
pub(crate) struct NewIssue {
    pub(crate) repository: RepositoryId,
    pub(crate) author: UserId,
    pub(crate) title: Title,
    pub(crate) body: Body,
    pub(crate) is_closed: bool,
    pub(crate) assignee: Option<UserId>,
    /// Zero for none.
    pub(crate) milestone_id: i64,
    /// Without duplicates.
    pub(crate) label_ids: Vec<i64>,
    /// Makes it a pull request.
    pub(crate) pull_request: Option<NewPullRequest>,
}

/// The branches of a pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewPullRequest {
    pub(crate) head_repository: RepositoryId,
    pub(crate) head_branch: String,
    pub(crate) base_branch: String,
}

/// The part of a pull request that an issue does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PullRequest {
    pub(crate) head_repository_id: i64,
    pub(crate) head_branch: String,
    pub(crate) base_branch: String,
    pub(crate) merged_us: Option<i64>,
}

/// A change of an issue. `None` leaves a field as it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct IssueChange {
    pub(crate) title: Option<Title>,
    pub(crate) body: Option<Body>,
    /// The inner `None` removes the assignee.
    pub(crate) assignee: Option<Option<UserId>>,
    /// Zero removes the milestone.
    pub(crate) milestone_id: Option<i64>,
    pub(crate) is_closed: Option<bool>,
}

/// A comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Comment {
    pub(crate) id: i64,
    pub(crate) repository: RepositoryId,
    pub(crate) issue_id: i64,
    pub(crate) issue_number: i64,
    pub(crate) is_pull_request: bool,
    /// Place among the comments of the repository.
    pub(crate) sequence: i64,
    pub(crate) author: UserId,
    pub(crate) body: String,
    /// True if `body` is the beginning only, in lists.
    pub(crate) is_truncated: bool,
    pub(crate) created_us: i64,
    pub(crate) updated_us: i64,
}

/// A label of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) id: i64,
    pub(crate) repository: RepositoryId,
    pub(crate) name: String,
    /// Six hexadecimal digits.
    pub(crate) color: String,
}

/// A milestone of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Milestone {
    pub(crate) id: i64,
    pub(crate) repository: RepositoryId,
    pub(crate) title: String,
    pub(crate) description: String,
    /// True if `description` is the beginning only, in lists.
    pub(crate) is_truncated: bool,
    pub(crate) is_closed: bool,
    pub(crate) due_us: Option<i64>,
    pub(crate) closed_us: Option<i64>,
    pub(crate) created_us: i64,
    pub(crate) open_count: i64,
    pub(crate) closed_count: i64,
}

/// The effect of one commit on one issue of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommitAction {
    /// The repository of the commit.
    pub(crate) source: RepositoryId,
    /// The object id of the commit, 40 hexadecimal digits.
    pub(crate) commit_id: String,
    /// The number of the issue.
    pub(crate) number: i64,
    /// The effect.
    pub(crate) action: Action,
}
