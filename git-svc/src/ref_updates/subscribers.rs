//! The services that receive the events of this one.

use ferrite_proto::events::{RefsUpdated, event::Fact};

/// Subscriber to all events.
pub(crate) const REPO_SVC: &str = "repo-svc";
/// Subscriber to updates of default branches, because commit messages close issues there.
pub(crate) const ISSUE_SVC: &str = "issue-svc";
/// Subscriber to all updates of refs, for webhooks.
pub(crate) const HOOK_SVC: &str = "hook-svc";

/// The services that receive an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Receivers {
    /// All of them.
    pub(super) all: &'static [&'static str],
    /// Those whose acceptance the writer waits for. They receive an event at the same time, and issue-svc only records it before it
    /// responds: the wait for both is hardly longer than the wait for repo-svc alone. hook-svc is never among them.
    pub(super) awaited: &'static [&'static str],
}

/// Returns the services that receive an event.
pub(super) fn subscribers(fact: &Fact) -> Receivers {
    match fact {
        // A change of HEAD alone.
        Fact::RefsUpdated(fact) if fact.updates.is_empty() => Receivers { all: &[REPO_SVC], awaited: &[REPO_SVC] },
        Fact::RefsUpdated(fact) if updates_default_branch(fact) => {
            Receivers { all: &[REPO_SVC, ISSUE_SVC, HOOK_SVC], awaited: &[REPO_SVC, ISSUE_SVC] }
        }
        Fact::RefsUpdated(_) => Receivers { all: &[REPO_SVC, HOOK_SVC], awaited: &[REPO_SVC] },
        _ => Receivers { all: &[REPO_SVC], awaited: &[REPO_SVC] },
    }
}

/// Returns whether one of the updated refs is the default branch. Of an update in several events, one has it.
fn updates_default_branch(fact: &RefsUpdated) -> bool {
    let branch = fact.default_branch.as_slice();
    fact.updates.iter().any(|update| update.name.strip_prefix(b"refs/heads/") == Some(branch))
}

#[cfg(test)]
mod tests {
    use ferrite_proto::events::{RefUpdate, SizeChanged};

    use super::*;

    #[test]
    fn updates_of_refs_go_to_hook_svc_and_no_writer_waits_for_it() {
        let update = |name: &str| {
            let updates = vec![RefUpdate { name: name.into(), ..RefUpdate::default() }];
            let default_branch = b"main".to_vec();
            subscribers(&Fact::RefsUpdated(RefsUpdated { updates, default_branch, ..RefsUpdated::default() }))
        };
        let default_branch = update("refs/heads/main");
        assert_eq!(default_branch.all, [REPO_SVC, ISSUE_SVC, HOOK_SVC]);
        assert_eq!(default_branch.awaited, [REPO_SVC, ISSUE_SVC]);
        for name in ["refs/heads/other", "refs/tags/main", "refs/pull/1/head"] {
            assert_eq!(update(name), Receivers { all: &[REPO_SVC, HOOK_SVC], awaited: &[REPO_SVC] });
        }
        assert_eq!(subscribers(&Fact::SizeChanged(SizeChanged::default())).all, [REPO_SVC]);
        assert_eq!(subscribers(&Fact::RefsUpdated(RefsUpdated::default())).all, [REPO_SVC]);
    }
}
