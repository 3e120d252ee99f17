//! Splits a fact into the events that hooks and feeds show.
//!
//! Each ref becomes events in order, as in Gogs: a new branch `create` and `push`, a deleted branch
//! or tag `delete`, a new or moved tag `create`. Refs that are neither branch nor tag have no
//! events, and neither has the deletion of a review.

use ferrite_events::part_uuid;
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::{Event, PullReviewed, RefUpdate, RefsUpdated, RepositoryAction};
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::issue::ReviewState;

use crate::model::remove_deleted_text;
use crate::store::events::{NewEvent, Source};

const BRANCHES: &[u8] = b"refs/heads/";
const TAGS: &[u8] = b"refs/tags/";

/// Returns the events of a fact, in the feed and not yet dispatched. The text of a deleted comment
/// is removed.
pub(super) fn split(event: &Event, happened_us: i64) -> Vec<NewEvent> {
    let (source, user_id, parts) = match &event.fact {
        Some(Fact::RefsUpdated(updated)) => (Source::Git, updated.user_id, ref_parts(updated)),
        Some(Fact::IssueUpdated(updated)) => {
            let is_pull = updated.issue.as_ref().is_some_and(|issue| issue.pull_request.is_some());
            let name = if is_pull { "pull_request" } else { "issues" };
            (Source::Issue, updated.user_id, whole(event, updated.issue.is_some(), name))
        }
        Some(Fact::CommentChanged(changed)) => {
            let is_told = changed.issue.is_some() && changed.comment.is_some();
            (Source::Issue, changed.user_id, whole(event, is_told, "issue_comment"))
        }
        Some(Fact::PullReviewed(reviewed)) => {
            let user_id = reviewed.review.as_ref().map_or(0, |review| review.user_id);
            (Source::Issue, user_id, review_parts(event, reviewed))
        }
        Some(Fact::RepositoryCreated(created)) => {
            (Source::Repo, created.user_id, whole(event, created.repository.is_some(), "repository"))
        }
        Some(Fact::RepositoryDeleted(deleted)) => {
            (Source::Repo, deleted.user_id, whole(event, deleted.repository.is_some(), "repository"))
        }
        Some(Fact::RepositoryUpdated(updated)) => {
            let is_told = updated.repository.is_some() && updated.action() != RepositoryAction::Unspecified;
            (Source::Repo, updated.user_id, whole(event, is_told, "repository"))
        }
        Some(Fact::RepositoryForked(forked)) => {
            (Source::Repo, forked.user_id, whole(event, forked.fork.is_some(), "fork"))
        }
        Some(Fact::ReleasePublished(published)) => {
            (Source::Repo, published.user_id, whole(event, published.release.is_some(), "release"))
        }
        Some(Fact::StatusCreated(created)) => {
            let user_id = created.status.as_ref().map_or(0, |status| status.user_id);
            let is_told = created.status.is_some() && created.commit.is_some();
            (Source::Git, user_id, whole(event, is_told, "status"))
        }
        // Facts for other services only.
        Some(
            Fact::IssueChanged(_)
            | Fact::SizeChanged(_)
            | Fact::ProtectionChanged(_)
            | Fact::HookChanged(_)
            | Fact::OrganizationDeleted(_)
            | Fact::MigrationEnded(_)
            | Fact::MirrorChanged(_)
            | Fact::LanguageChanged(_),
        )
        | None => return Vec::new(),
    };
    let new = |(part, (name, fact)): (i64, (&'static str, Fact))| {
        let mut fact = Event {
            event_id: event.event_id.clone(),
            repository_id: event.repository_id,
            event_time: event.event_time,
            trace_parent: event.trace_parent.clone(),
            fact: Some(fact),
        };
        remove_deleted_text(&mut fact);
        NewEvent {
            uuid: part_uuid(&event.event_id, part),
            repository: RepositoryId(event.repository_id),
            source,
            user: UserId(user_id),
            name,
            fact,
            payload: None,
            is_dispatched: false,
            is_in_feed: true,
            happened_us,
        }
    };
    (0..).zip(parts).map(new).collect()
}

fn whole(event: &Event, is_told: bool, name: &'static str) -> Vec<(&'static str, Fact)> {
    event.fact.iter().filter(|_| is_told).map(|fact| (name, fact.clone())).collect()
}

fn review_parts(event: &Event, reviewed: &PullReviewed) -> Vec<(&'static str, Fact)> {
    let is_of_pull = reviewed.pull.as_ref().is_some_and(|pull| pull.pull_request.is_some());
    let state = reviewed.review.as_ref().map_or(ReviewState::Unspecified, ferrite_proto::issue::Review::state);
    let name = match state {
        ReviewState::Approved => "pull_request_approved",
        ReviewState::ChangesRequested => "pull_request_rejected",
        ReviewState::Commented => "pull_request_comment",
        ReviewState::Unspecified | ReviewState::Pending | ReviewState::Requested => return Vec::new(),
    };
    whole(event, is_of_pull && !reviewed.is_deleted, name)
}

fn ref_parts(updated: &RefsUpdated) -> Vec<(&'static str, Fact)> {
    let mut parts = Vec::new();
    for update in &updated.updates {
        for name in ref_events(update) {
            // Push options are for servers of the installation and must not leave it.
            let alone = RefsUpdated {
                updates: vec![update.clone()],
                push_options: Vec::new(),
                merge: None,
                default_branch: updated.default_branch.clone(),
                ..*updated
            };
            parts.push((*name, Fact::RefsUpdated(alone)));
        }
    }
    parts
}

/// Returns the event names of a ref update.
fn ref_events(update: &RefUpdate) -> &'static [&'static str] {
    let is_zero = |id: &str| id.bytes().all(|byte| byte == b'0');
    let (is_branch, is_tag) = (update.name.starts_with(BRANCHES), update.name.starts_with(TAGS));
    match (is_branch, is_tag) {
        (false, false) => &[],
        _ if is_zero(&update.new_id) => &["delete"],
        (false, true) => &["create"],
        _ if is_zero(&update.old_id) => &["create", "push"],
        _ => &["push"],
    }
}

#[cfg(test)]
mod tests {
    use ferrite_proto::events::{
        CommentChanged, IssueUpdated, ReleasePublished, RepositoryCreated, RepositoryForked, RepositoryUpdated,
        SizeChanged,
    };
    use ferrite_proto::{issue, repo};

    use super::*;

    const ZERO: &str = "0000000000000000000000000000000000000000";
    const ONE: &str = "1111111111111111111111111111111111111111";
    const TWO: &str = "2222222222222222222222222222222222222222";

    fn told(fact: Fact) -> Vec<NewEvent> {
        let event_id = "35fc99fc-0e3f-431b-9359-2d6dced7dbeb".to_owned();
        split(&Event { event_id, repository_id: 7, fact: Some(fact), ..Event::default() }, 5)
    }

    fn refs(updates: &[(&str, &str, &str)]) -> Vec<NewEvent> {
        let update = |(name, old, new): &(&str, &str, &str)| RefUpdate {
            name: name.as_bytes().to_vec(),
            old_id: (*old).to_owned(),
            new_id: (*new).to_owned(),
        };
        told(Fact::RefsUpdated(RefsUpdated {
            updates: updates.iter().map(update).collect(),
            push_options: vec!["secret".into()],
            ..Default::default()
        }))
    }

    #[test]
    fn each_ref_is_told_alone_and_in_order() {
        let events = refs(&[
            ("refs/heads/new", ZERO, ONE),
            ("refs/heads/main", ONE, TWO),
            ("refs/heads/old", TWO, ZERO),
            ("refs/tags/v1", ZERO, ONE),
            ("refs/tags/v2", ONE, TWO),
            ("refs/tags/v3", ONE, ZERO),
            ("refs/notes/commits", ZERO, ONE),
            ("refs/pull/1/head", ZERO, ONE),
        ]);
        let names: Vec<_> = events.iter().map(|event| event.name).collect();
        assert_eq!(names, ["create", "push", "push", "delete", "create", "create", "delete"]);
        let mut uuids: Vec<_> = events.iter().map(|event| event.uuid).collect();
        uuids.dedup();
        assert_eq!(uuids.len(), events.len());
        assert_eq!(uuids[0].get_version_num(), 5);
        assert_eq!(
            uuids,
            refs(&[
                ("refs/heads/new", ZERO, ONE),
                ("refs/heads/main", ONE, TWO),
                ("refs/heads/old", TWO, ZERO),
                ("refs/tags/v1", ZERO, ONE),
                ("refs/tags/v2", ONE, TWO),
                ("refs/tags/v3", ONE, ZERO),
            ])
            .iter()
            .map(|event| event.uuid)
            .collect::<Vec<_>>(),
            "the same fact has the same ids"
        );
        for event in events {
            let Some(Fact::RefsUpdated(part)) = event.fact.fact else { panic!("another fact") };
            assert_eq!((part.updates.len(), part.push_options.len()), (1, 0));
            assert_eq!((event.repository, event.source), (RepositoryId(7), Source::Git));
        }
    }

    #[test]
    fn issues_and_pull_requests_are_told_and_comments_on_both() {
        let plain = issue::Issue::default();
        let pull = issue::Issue { pull_request: Some(issue::PullRequest::default()), ..Default::default() };
        let updated = |issue: &issue::Issue| {
            told(Fact::IssueUpdated(IssueUpdated { issue: Some(issue.clone()), ..Default::default() }))
        };
        assert_eq!(updated(&plain)[0].name, "issues");
        assert_eq!((updated(&pull)[0].name, updated(&pull)[0].source), ("pull_request", Source::Issue));
        assert_eq!(told(Fact::IssueUpdated(IssueUpdated::default())).len(), 0);
        let comment = Some(issue::Comment::default());
        let changed = CommentChanged { issue: Some(pull), comment, user_id: 8, ..Default::default() };
        let commented = told(Fact::CommentChanged(changed));
        assert_eq!((commented[0].name, commented[0].user), ("issue_comment", UserId(8)));
    }

    #[test]
    fn submitted_reviews_are_told_by_what_they_say() {
        let pull = || Some(issue::Issue { pull_request: Some(issue::PullRequest::default()), ..Default::default() });
        let reviewed = |state: ReviewState, pull, is_deleted| {
            let review = Some(issue::Review { user_id: 8, state: state.into(), ..Default::default() });
            let events = told(Fact::PullReviewed(PullReviewed { pull, review, is_deleted }));
            events.iter().map(|event| (event.name, event.source, event.user)).collect::<Vec<_>>()
        };
        for (state, name) in [
            (ReviewState::Approved, "pull_request_approved"),
            (ReviewState::ChangesRequested, "pull_request_rejected"),
            (ReviewState::Commented, "pull_request_comment"),
        ] {
            assert_eq!(reviewed(state, pull(), false), [(name, Source::Issue, UserId(8))]);
            assert_eq!(reviewed(state, pull(), true), [], "a deleted review");
            assert_eq!(reviewed(state, Some(issue::Issue::default()), false), [], "no pull request");
        }
        for state in [ReviewState::Pending, ReviewState::Requested, ReviewState::Unspecified] {
            assert_eq!(reviewed(state, pull(), false), [], "{state:?}");
        }
    }

    #[test]
    fn a_repository_is_told_and_its_size_is_not() {
        let repository = Some(repo::Repository::default());
        let created = RepositoryCreated { repository, ..Default::default() };
        let events = told(Fact::RepositoryCreated(created));
        assert_eq!((events[0].name, events[0].source), ("repository", Source::Repo));
        assert_eq!(told(Fact::SizeChanged(SizeChanged::default())).len(), 0);
    }

    #[test]
    fn changes_forks_and_releases_of_a_repository_are_told() {
        let repository = || Some(repo::Repository::default());
        let updated = |action: RepositoryAction| {
            let action = action.into();
            told(Fact::RepositoryUpdated(RepositoryUpdated { action, repository: repository(), ..Default::default() }))
        };
        let forked = RepositoryForked { fork: repository(), user_id: 7 };
        let published = ReleasePublished { release: Some(repo::Release::default()), user_id: 7 };
        for (events, name) in [
            (updated(RepositoryAction::Renamed), "repository"),
            (updated(RepositoryAction::Archived), "repository"),
            (told(Fact::RepositoryForked(forked)), "fork"),
            (told(Fact::ReleasePublished(published)), "release"),
        ] {
            let told: Vec<_> = events.iter().map(|event| (event.name, event.source)).collect();
            assert_eq!(told, [(name, Source::Repo)]);
        }
        assert_eq!(updated(RepositoryAction::Unspecified).len(), 0);
    }
}
