//! Merges that wait for the protection of their base branch.

use ferrite_proto::git::CommitIdentity;
use ferrite_proto::id::{IssueId, RepositoryId, UserId};

/// A merge to do as soon as it is allowed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ScheduledMerge {
    pub(crate) issue: IssueId,
    pub(crate) repository: RepositoryId,
    pub(crate) number: i64,
    pub(crate) user: UserId,
    /// The access token with whose rights it is done.
    pub(crate) token_id: i64,
    /// A number of [`ferrite_proto::git::MergeStyle`].
    pub(crate) style: i32,
    /// The commit that the head must have; empty for any.
    pub(crate) head_id: String,
    pub(crate) message: String,
    /// The author of a squash; absent for the user.
    pub(crate) author: Option<CommitIdentity>,
    pub(crate) deletes_branch: bool,
    pub(crate) created_us: i64,
}

/// What readers of a pull request see of its scheduled merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShownSchedule {
    pub(crate) user_id: i64,
    pub(crate) style: i32,
    pub(crate) created_us: i64,
}
