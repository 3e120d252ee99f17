//! Which events people see as activities.

use ferrite_proto::events::event::Fact;
use ferrite_proto::events::{CommentAction, Event, IssueAction, RefsUpdateKind, RefsUpdated, RepositoryAction};
use ferrite_proto::hook::ActivityKind;
use ferrite_proto::issue::{Issue, ReviewState};

/// The part of a repository that an activity is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Content,
    Issues,
    Pulls,
}

/// Returns what was done, for an event that is named as in [`HookEvents`](super::HookEvents) and
/// has its own part of a fact. Unspecified if it is no activity.
pub(crate) fn activity(name: &str, event: &Event) -> ActivityKind {
    let Some(fact) = &event.fact else { return ActivityKind::Unspecified };
    match fact {
        Fact::RefsUpdated(updated) => of_refs(name, updated),
        Fact::IssueUpdated(updated) => of_issue(updated.action(), updated.issue.as_ref()),
        Fact::CommentChanged(changed) if changed.action() == CommentAction::Created => match is_pull(&changed.issue) {
            true => ActivityKind::CommentPull,
            false => ActivityKind::CommentIssue,
        },
        Fact::PullReviewed(reviewed) if !reviewed.is_deleted => {
            match reviewed.review.as_ref().map_or(ReviewState::Unspecified, ferrite_proto::issue::Review::state) {
                ReviewState::Approved => ActivityKind::ApprovePull,
                ReviewState::ChangesRequested => ActivityKind::RejectPull,
                ReviewState::Commented => ActivityKind::CommentPull,
                ReviewState::Unspecified | ReviewState::Pending | ReviewState::Requested => ActivityKind::Unspecified,
            }
        }
        Fact::RepositoryCreated(_) => ActivityKind::CreateRepository,
        Fact::RepositoryUpdated(updated) => match updated.action() {
            RepositoryAction::Renamed => ActivityKind::RenameRepository,
            RepositoryAction::Transferred => ActivityKind::TransferRepository,
            RepositoryAction::Unspecified
            | RepositoryAction::Visibility
            | RepositoryAction::Archived
            | RepositoryAction::Unarchived => ActivityKind::Unspecified,
        },
        Fact::ReleasePublished(_) => ActivityKind::PublishRelease,
        _ => ActivityKind::Unspecified,
    }
}

/// A new branch is told as `create` and as `push`: its push counts.
fn of_refs(name: &str, updated: &RefsUpdated) -> ActivityKind {
    let Some(update) = updated.updates.first() else { return ActivityKind::Unspecified };
    let is_tag = update.name.starts_with(b"refs/tags/");
    match (name, is_tag, updated.kind() == RefsUpdateKind::Mirror) {
        ("push", _, true) | ("create", true, true) => ActivityKind::SyncPush,
        ("push", _, false) => ActivityKind::PushBranch,
        ("create", true, false) => ActivityKind::PushTag,
        ("delete", _, true) => ActivityKind::SyncDelete,
        ("delete", true, false) => ActivityKind::DeleteTag,
        ("delete", false, false) => ActivityKind::DeleteBranch,
        _ => ActivityKind::Unspecified,
    }
}

fn of_issue(action: IssueAction, issue: Option<&Issue>) -> ActivityKind {
    let pull = issue.and_then(|issue| issue.pull_request.as_ref());
    match (action, pull) {
        (IssueAction::Opened, None) => ActivityKind::OpenIssue,
        (IssueAction::Opened, Some(_)) => ActivityKind::OpenPull,
        (IssueAction::Closed, None) => ActivityKind::CloseIssue,
        (IssueAction::Closed, Some(pull)) if pull.is_merged => ActivityKind::MergePull,
        (IssueAction::Closed, Some(_)) => ActivityKind::ClosePull,
        (IssueAction::Reopened, None) => ActivityKind::ReopenIssue,
        (IssueAction::Reopened, Some(_)) => ActivityKind::ReopenPull,
        _ => ActivityKind::Unspecified,
    }
}

fn is_pull(issue: &Option<Issue>) -> bool {
    issue.as_ref().is_some_and(|issue| issue.pull_request.is_some())
}

/// Returns what a reader must be able to read to see an activity.
pub(crate) fn part(kind: ActivityKind) -> Part {
    match kind {
        ActivityKind::Unspecified
        | ActivityKind::CreateRepository
        | ActivityKind::RenameRepository
        | ActivityKind::TransferRepository
        | ActivityKind::PushBranch
        | ActivityKind::DeleteBranch
        | ActivityKind::PushTag
        | ActivityKind::DeleteTag
        | ActivityKind::SyncPush
        | ActivityKind::SyncDelete
        | ActivityKind::PublishRelease => Part::Content,
        ActivityKind::OpenIssue | ActivityKind::CloseIssue | ActivityKind::ReopenIssue | ActivityKind::CommentIssue => {
            Part::Issues
        }
        ActivityKind::OpenPull
        | ActivityKind::ClosePull
        | ActivityKind::ReopenPull
        | ActivityKind::MergePull
        | ActivityKind::CommentPull
        | ActivityKind::ApprovePull
        | ActivityKind::RejectPull => Part::Pulls,
    }
}

#[cfg(test)]
mod tests {
    use ferrite_proto::events::{CommentChanged, IssueUpdated, PullReviewed, RefUpdate, RepositoryUpdated};
    use ferrite_proto::issue::{PullRequest, Review};

    use super::*;

    fn kind(name: &str, fact: Fact) -> ActivityKind {
        activity(name, &Event { fact: Some(fact), ..Event::default() })
    }

    fn pull(is_merged: bool) -> Option<Issue> {
        let pull_request = Some(PullRequest { is_merged, ..PullRequest::default() });
        Some(Issue { pull_request, ..Issue::default() })
    }

    #[test]
    fn refs_are_told_once_each() {
        let refs = |name: &str, reference: &str, of: RefsUpdateKind| {
            let update = RefUpdate { name: reference.as_bytes().to_vec(), ..RefUpdate::default() };
            kind(name, Fact::RefsUpdated(RefsUpdated { updates: vec![update], kind: of.into(), ..Default::default() }))
        };
        let (branch, tag) = ("refs/heads/main", "refs/tags/v1");
        for (name, reference, expected, of_mirror) in [
            ("create", branch, ActivityKind::Unspecified, ActivityKind::Unspecified),
            ("push", branch, ActivityKind::PushBranch, ActivityKind::SyncPush),
            ("delete", branch, ActivityKind::DeleteBranch, ActivityKind::SyncDelete),
            ("create", tag, ActivityKind::PushTag, ActivityKind::SyncPush),
            ("delete", tag, ActivityKind::DeleteTag, ActivityKind::SyncDelete),
        ] {
            assert_eq!(refs(name, reference, RefsUpdateKind::Push), expected, "{name} {reference}");
            assert_eq!(refs(name, reference, RefsUpdateKind::Mirror), of_mirror, "{name} {reference}");
        }
    }

    #[test]
    fn issues_and_pull_requests_are_told_when_they_open_and_close() {
        let updated = |action: IssueAction, issue| {
            kind("issues", Fact::IssueUpdated(IssueUpdated { action: action.into(), issue, ..Default::default() }))
        };
        let plain = || Some(Issue::default());
        for (action, issue, expected) in [
            (IssueAction::Opened, plain(), ActivityKind::OpenIssue),
            (IssueAction::Closed, plain(), ActivityKind::CloseIssue),
            (IssueAction::Reopened, plain(), ActivityKind::ReopenIssue),
            (IssueAction::Opened, pull(false), ActivityKind::OpenPull),
            (IssueAction::Closed, pull(false), ActivityKind::ClosePull),
            (IssueAction::Closed, pull(true), ActivityKind::MergePull),
            (IssueAction::Reopened, pull(false), ActivityKind::ReopenPull),
            (IssueAction::Edited, plain(), ActivityKind::Unspecified),
            (IssueAction::LabelUpdated, plain(), ActivityKind::Unspecified),
        ] {
            assert_eq!(updated(action, issue), expected, "{action:?}");
        }
        let commented = |action: CommentAction, issue| {
            let changed = CommentChanged { action: action.into(), issue, ..Default::default() };
            kind("issue_comment", Fact::CommentChanged(changed))
        };
        assert_eq!(commented(CommentAction::Created, plain()), ActivityKind::CommentIssue);
        assert_eq!(commented(CommentAction::Created, pull(false)), ActivityKind::CommentPull);
        assert_eq!(commented(CommentAction::Edited, plain()), ActivityKind::Unspecified);
        let review = Some(Review { state: ReviewState::Approved.into(), ..Review::default() });
        let reviewed = PullReviewed { pull: pull(false), review, is_deleted: false };
        assert_eq!(kind("pull_request_approved", Fact::PullReviewed(reviewed)), ActivityKind::ApprovePull);
    }

    #[test]
    fn of_changes_of_a_repository_the_name_and_the_owner_are_told() {
        let updated = |action: RepositoryAction| {
            kind(
                "repository",
                Fact::RepositoryUpdated(RepositoryUpdated { action: action.into(), ..Default::default() }),
            )
        };
        assert_eq!(updated(RepositoryAction::Renamed), ActivityKind::RenameRepository);
        assert_eq!(updated(RepositoryAction::Transferred), ActivityKind::TransferRepository);
        assert_eq!(updated(RepositoryAction::Visibility), ActivityKind::Unspecified);
    }
}
