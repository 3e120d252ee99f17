//! The services that receive the events of this one.

use ferrite_proto::events::{RefsUpdated, event::Fact};

/// Subscriber to all events.
pub(crate) const REPO_SVC: &str = "repo-svc";
/// Subscriber to updates of default branches, because commit messages close issues there.
pub(crate) const ISSUE_SVC: &str = "issue-svc";

/// Returns the services that receive an event.
///
/// Writers wait for all of them. They receive an event at the same time, and issue-svc only records it before it answers: the wait for
/// both is hardly longer than the wait for repo-svc alone.
pub(super) fn subscribers(fact: &Fact) -> &'static [&'static str] {
    match fact {
        Fact::RefsUpdated(fact) if updates_default_branch(fact) => &[REPO_SVC, ISSUE_SVC],
        Fact::RefsUpdated(_)
        | Fact::SizeChanged(_)
        | Fact::ProtectionChanged(_)
        | Fact::RepositoryCreated(_)
        | Fact::RepositoryDeleted(_)
        | Fact::IssueChanged(_) => &[REPO_SVC],
    }
}

/// Returns whether one of the updated refs is the default branch. Of an update in several events, one has it.
fn updates_default_branch(fact: &RefsUpdated) -> bool {
    let branch = fact.default_branch.as_slice();
    fact.updates.iter().any(|update| update.name.strip_prefix(b"refs/heads/") == Some(branch))
}
