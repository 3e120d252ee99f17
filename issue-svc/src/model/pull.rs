//! Pull requests: issues with a head and a base.

use ferrite_proto::error::FieldViolation;
use ferrite_proto::git::{CommitIdentity, MergeStyle};
use ferrite_proto::id::{IssueId, RepositoryId, UserId};
use ferrite_proto::repo::PullSettings;

/// As many bytes as git-svc accepts.
const MAX_BRANCH_BYTES: usize = 1000;
/// Titles that begin with one of these, in any case, make drafts.
const DRAFT_PREFIXES: [&str; 2] = ["WIP:", "[WIP]"];
const COMMIT_ID_DIGITS: usize = 40;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewPullRequest {
    pub(crate) head_repository: RepositoryId,
    pub(crate) head_branch: String,
    pub(crate) base_branch: String,
    pub(crate) head_id: String,
    pub(crate) merge_base_id: String,
}

/// The fields that a pull request has in addition to its issue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PullRequest {
    /// Zero if the repository was deleted.
    pub(crate) head_repository_id: i64,
    pub(crate) head_branch: String,
    pub(crate) base_branch: String,
    pub(crate) head_id: String,
    pub(crate) merge_base_id: String,
    pub(crate) is_head_deleted: bool,
    /// Grows with every change of the head.
    pub(crate) head_sequence: i64,
    pub(crate) merged_us: Option<i64>,
    /// Empty if it was not merged.
    pub(crate) merge_commit_id: String,
    /// Empty if it was not merged.
    pub(crate) merged_base_id: String,
    pub(crate) merger_id: i64,
    /// Only read along with the issue.
    pub(crate) scheduled: Option<ShownSchedule>,
    /// Comments of submitted reviews.
    pub(crate) review_comment_count: i64,
}

/// The base and the head of a pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PullEnds {
    pub(crate) repository: RepositoryId,
    pub(crate) base_branch: String,
    pub(crate) head_repository: RepositoryId,
    pub(crate) head_branch: String,
}

/// A merge of a pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Merged {
    pub(crate) number: i64,
    pub(crate) head_id: String,
    /// The branch that was moved.
    pub(crate) base_branch: String,
    /// The commit of the base before.
    pub(crate) base_id: String,
    /// The commit of the base after.
    pub(crate) commit_id: String,
    pub(crate) user: UserId,
    /// Whether the credential of the merge reaches issues, which its closing words then close.
    pub(crate) reaches_issues: bool,
}

/// An open pull request, as far as its queue needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenPull {
    pub(crate) issue: IssueId,
    pub(crate) repository: RepositoryId,
    pub(crate) number: i64,
    pub(crate) head_id: String,
}

/// What a reviewer says about a pull request: the latest review that approves or rejects it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) user: UserId,
    /// False for a rejection.
    pub(crate) approves: bool,
    /// The commit that was reviewed.
    pub(crate) commit_id: String,
}

/// A merge to do as soon as it is allowed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ScheduledMerge {
    pub(crate) issue: IssueId,
    pub(crate) repository: RepositoryId,
    pub(crate) number: i64,
    pub(crate) user: UserId,
    /// The access token with whose rights it is done; zero for those of the user, who scheduled it
    /// within a session.
    pub(crate) token_id: i64,
    /// A number of [`MergeStyle`].
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

/// Whether a title marks a draft.
pub(crate) fn is_draft(title: &str) -> bool {
    let title = title.trim_start().as_bytes();
    DRAFT_PREFIXES
        .iter()
        .any(|prefix| title.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes())))
}

/// Checks the short name of a branch as far as this service must. git-svc finds the branch, or not.
pub(crate) fn check_branch(field: &str, name: &str) -> Result<(), FieldViolation> {
    if name.is_empty() {
        return Err(FieldViolation::new(field, "required", "must not be blank"));
    }
    if name.len() > MAX_BRANCH_BYTES {
        return Err(FieldViolation::new(field, "too_long", "must have at most 1,000 bytes"));
    }
    if name.chars().any(char::is_control) {
        return Err(FieldViolation::new(field, "invalid", "must not contain control characters"));
    }
    Ok(())
}

/// Checks the id of a commit.
pub(crate) fn check_commit_id(field: &str, id: &str) -> Result<(), FieldViolation> {
    let is_id = id.len() == COMMIT_ID_DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_id { Ok(()) } else { Err(FieldViolation::new(field, "invalid", "must be 40 hexadecimal digits")) }
}

/// Whether the settings of a repository allow a style of merging.
pub(crate) fn allows_style(settings: Option<&PullSettings>, style: i32) -> bool {
    let Some(settings) = settings else { return false };
    match MergeStyle::try_from(style) {
        Ok(MergeStyle::Merge) => settings.allow_merge,
        Ok(MergeStyle::Rebase) => settings.allow_rebase,
        Ok(MergeStyle::RebaseMerge) => settings.allow_rebase_merge,
        Ok(MergeStyle::Squash) => settings.allow_squash,
        Ok(MergeStyle::FastForwardOnly) => settings.allow_fast_forward_only,
        Ok(MergeStyle::Unspecified) | Err(_) => false,
    }
}

pub(crate) fn merge_style(style: i32) -> Result<MergeStyle, FieldViolation> {
    match MergeStyle::try_from(style) {
        Ok(MergeStyle::Unspecified) | Err(_) => Err(FieldViolation::new("style", "unknown", "must be a merge style")),
        Ok(style) => Ok(style),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drafts_begin_with_wip_in_any_case() {
        for title in ["WIP: x", "wip:x", "[WIP] x", "[wip]", "Wip:"] {
            assert!(is_draft(title), "{title}");
        }
        for title in ["", "WIP", "WIPE: x", "x WIP:", "[WI", "é WIP:"] {
            assert!(!is_draft(title), "{title}");
        }
    }

    #[test]
    fn branches_and_commits_are_checked() {
        assert!(check_branch("base", "main").is_ok());
        for name in ["", "a\nb", &"x".repeat(1001)] {
            assert_eq!(check_branch("base", name).unwrap_err().field, "base");
        }
        assert!(check_commit_id("sha", &"aB0".repeat(14)[..40]).is_ok());
        assert!(check_commit_id("sha", &"g".repeat(40)).is_err());
        assert!(check_commit_id("sha", "a").is_err());
    }

    #[test]
    fn settings_allow_styles_one_by_one() {
        let styles = [
            MergeStyle::Merge,
            MergeStyle::Rebase,
            MergeStyle::RebaseMerge,
            MergeStyle::Squash,
            MergeStyle::FastForwardOnly,
        ];
        for allowed in styles {
            let settings = PullSettings {
                allow_merge: allowed == MergeStyle::Merge,
                allow_rebase: allowed == MergeStyle::Rebase,
                allow_rebase_merge: allowed == MergeStyle::RebaseMerge,
                allow_squash: allowed == MergeStyle::Squash,
                allow_fast_forward_only: allowed == MergeStyle::FastForwardOnly,
                ..PullSettings::default()
            };
            for style in styles {
                assert_eq!(allows_style(Some(&settings), style.into()), style == allowed, "{style:?}");
                assert!(!allows_style(None, style.into()));
            }
        }
        assert!(!allows_style(Some(&PullSettings::default()), MergeStyle::Unspecified.into()));
    }
}
