//! The services that receive the events of this one.

use ferrite_proto::events::{IssueReach, RefsUpdated, event::Fact};

/// Subscriber to all events.
pub(crate) const REPO_SVC: &str = "repo-svc";
/// Subscriber to updates of default branches whose commit messages may close issues.
pub(crate) const ISSUE_SVC: &str = "issue-svc";
/// Subscriber to all updates of refs, for webhooks.
pub(crate) const HOOK_SVC: &str = "hook-svc";

/// Those whose acceptance the writer of an event waits for, so that a client that writes and then reads sees what it did. The others only
/// record an event when they receive it.
pub(super) const AWAITED: &[&str] = &[REPO_SVC];

/// Returns the services that receive an event.
pub(super) fn subscribers(fact: &Fact) -> &'static [&'static str] {
    match fact {
        // A change of HEAD alone.
        Fact::RefsUpdated(fact) if fact.updates.is_empty() => &[REPO_SVC],
        Fact::RefsUpdated(fact) if may_change_issues(fact) => &[REPO_SVC, ISSUE_SVC, HOOK_SVC],
        Fact::RefsUpdated(_) => &[REPO_SVC, HOOK_SVC],
        _ => &[REPO_SVC],
    }
}

/// Returns whether one of the updated refs is the default branch, and messages may change issues. Of an update in several events, one has the
/// default branch.
fn may_change_issues(fact: &RefsUpdated) -> bool {
    let branch = fact.default_branch.as_slice();
    let reaches_issues = matches!(fact.issue_reach(), IssueReach::Repository | IssueReach::All);
    reaches_issues && fact.updates.iter().any(|update| update.name.strip_prefix(b"refs/heads/") == Some(branch))
}

#[cfg(test)]
mod tests {
    use ferrite_proto::events::{RefUpdate, SizeChanged};

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
    }
}
