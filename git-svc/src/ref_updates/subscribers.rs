//! The services that receive the events of this one.

use ferrite_proto::events::{IssueReach, RefsUpdated, event::Fact};

/// Receives all events except statuses of commits.
pub(crate) const REPO_SVC: &str = "repo-svc";
/// Receives updates of default branches whose commit messages may close issues.
pub(crate) const ISSUE_SVC: &str = "issue-svc";
/// Receives all ref updates and statuses of commits, for webhooks.
pub(crate) const HOOK_SVC: &str = "hook-svc";

/// Writers wait until these subscribers have accepted an event, so that a client that writes and
/// then reads sees its own change. The others only record an event when they receive it.
pub(super) const AWAITED: &[&str] = &[REPO_SVC];

pub(super) fn subscribers(fact: &Fact) -> &'static [&'static str] {
    match fact {
        // Only HEAD changed.
        Fact::RefsUpdated(fact) if fact.updates.is_empty() => &[REPO_SVC],
        Fact::RefsUpdated(fact) if may_change_issues(fact) => &[REPO_SVC, ISSUE_SVC, HOOK_SVC],
        Fact::RefsUpdated(_) => &[REPO_SVC, HOOK_SVC],
        Fact::StatusCreated(_) => &[HOOK_SVC],
        _ => &[REPO_SVC],
    }
}

/// Returns whether an updated ref is the default branch and messages may change issues. If an
/// update is split into several events, one of them has the default branch.
fn may_change_issues(fact: &RefsUpdated) -> bool {
    let branch = fact.default_branch.as_slice();
    let reaches_issues = matches!(fact.issue_reach(), IssueReach::Repository | IssueReach::All);
    reaches_issues && fact.updates.iter().any(|update| update.name.strip_prefix(b"refs/heads/") == Some(branch))
}

#[cfg(test)]
mod tests {
    use ferrite_proto::events::{RefUpdate, SizeChanged, StatusCreated};

    use super::*;

    #[test]
    fn updates_of_refs_go_to_other_services_too_and_no_writer_waits_for_these() {
        let update = |name: &str, reach: IssueReach| {
            let updates = vec![RefUpdate { name: name.into(), ..RefUpdate::default() }];
            let (default_branch, issue_reach) = (b"main".to_vec(), reach.into());
            let fact = RefsUpdated { updates, default_branch, issue_reach, ..RefsUpdated::default() };
            subscribers(&Fact::RefsUpdated(fact))
        };
        assert_eq!(AWAITED, [REPO_SVC]);
        for reach in [IssueReach::Repository, IssueReach::All] {
            assert_eq!(update("refs/heads/main", reach), [REPO_SVC, ISSUE_SVC, HOOK_SVC]);
        }
        assert_eq!(update("refs/heads/main", IssueReach::None), [REPO_SVC, HOOK_SVC]);
        for name in ["refs/heads/other", "refs/tags/main", "refs/pull/1/head"] {
            assert_eq!(update(name, IssueReach::All), [REPO_SVC, HOOK_SVC]);
        }
        assert_eq!(subscribers(&Fact::SizeChanged(SizeChanged::default())), [REPO_SVC]);
        assert_eq!(subscribers(&Fact::RefsUpdated(RefsUpdated::default())), [REPO_SVC]);
        assert_eq!(subscribers(&Fact::StatusCreated(StatusCreated::default())), [HOOK_SVC]);
    }
}
