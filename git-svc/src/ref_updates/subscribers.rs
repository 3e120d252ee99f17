//! The services that receive the events of this one.

use ferrite_proto::events::{RefsUpdateKind, RefsUpdated, event::Fact};

/// Receives all events except statuses of commits.
pub(crate) const REPO_SVC: &str = "repo-svc";
/// Receives updates of branches: pull requests follow them, and commit messages on the default
/// branch may close issues. Receives statuses of commits, for scheduled merges.
pub(crate) const ISSUE_SVC: &str = "issue-svc";
/// Receives all ref updates but heads of pull requests, and statuses of commits, for webhooks.
pub(crate) const HOOK_SVC: &str = "hook-svc";

/// Writers wait until these subscribers have accepted an event, so that a client that writes and
/// then reads sees its own change. The others only record an event when they receive it.
pub(super) const AWAITED: &[&str] = &[REPO_SVC];
/// The same for the merge of a pull request, which issue-svc shows.
pub(super) const AWAITED_BY_MERGES: &[&str] = &[REPO_SVC, ISSUE_SVC];

pub(super) fn subscribers(fact: &Fact) -> &'static [&'static str] {
    match fact {
        // Only HEAD changed.
        Fact::RefsUpdated(fact) if fact.updates.is_empty() => &[REPO_SVC],
        Fact::RefsUpdated(fact) if fact.kind() == RefsUpdateKind::PullHead => &[REPO_SVC],
        Fact::RefsUpdated(fact) if has_branch(fact) => &[REPO_SVC, ISSUE_SVC, HOOK_SVC],
        Fact::RefsUpdated(_) => &[REPO_SVC, HOOK_SVC],
        Fact::StatusCreated(_) => &[ISSUE_SVC, HOOK_SVC],
        _ => &[REPO_SVC],
    }
}

fn has_branch(fact: &RefsUpdated) -> bool {
    fact.updates.iter().any(|update| update.name.starts_with(b"refs/heads/"))
}

#[cfg(test)]
mod tests {
    use ferrite_proto::events::{RefUpdate, SizeChanged, StatusCreated};

    use super::*;

    #[test]
    fn updates_of_refs_go_to_other_services_too() {
        let update = |name: &str, kind: RefsUpdateKind| {
            let updates = vec![RefUpdate { name: name.into(), ..RefUpdate::default() }];
            subscribers(&Fact::RefsUpdated(RefsUpdated { updates, kind: kind.into(), ..RefsUpdated::default() }))
        };
        for name in ["refs/heads/main", "refs/heads/other"] {
            assert_eq!(update(name, RefsUpdateKind::Push), [REPO_SVC, ISSUE_SVC, HOOK_SVC]);
        }
        assert_eq!(update("refs/tags/main", RefsUpdateKind::Push), [REPO_SVC, HOOK_SVC]);
        assert_eq!(update("refs/pull/1/head", RefsUpdateKind::PullHead), [REPO_SVC]);
        assert_eq!(subscribers(&Fact::SizeChanged(SizeChanged::default())), [REPO_SVC]);
        assert_eq!(subscribers(&Fact::RefsUpdated(RefsUpdated::default())), [REPO_SVC]);
        assert_eq!(subscribers(&Fact::StatusCreated(StatusCreated::default())), [ISSUE_SVC, HOOK_SVC]);
    }
}
