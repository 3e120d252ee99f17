use ferrite_proto::id::{IssueId, RepositoryId, UserId};

use super::text::{Body, Title};

/// An issue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Issue {
    pub(crate) id: IssueId,
    pub(crate) repository: RepositoryId,
    /// Number within the repository: from 1, never reused.
    pub(crate) number: i64,
    pub(crate) author: UserId,
    pub(crate) title: String,
    pub(crate) body: String,
    pub(crate) is_closed: bool,
    pub(crate) comment_count: i64,
    pub(crate) created_us: i64,
    pub(crate) updated_us: i64,
}

/// An issue that has no number yet.
#[derive(Clone, Debug)]
pub(crate) struct NewIssue {
    pub(crate) repository: RepositoryId,
    pub(crate) author: UserId,
    pub(crate) title: Title,
    pub(crate) body: Body,
    pub(crate) is_closed: bool,
}

/// The counters of a repository's issues. Each change increments `version`, so that a receiver can drop older ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counter {
    /// The number assigned last.
    pub(crate) last_number: i64,
    pub(crate) open_count: i64,
    pub(crate) version: i64,
}
