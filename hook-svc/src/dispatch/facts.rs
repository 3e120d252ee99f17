//! Builds native payloads from facts. `render` looks up whatever else they need.

use ferrite_api_types::convert::{MissingField, text};
use ferrite_api_types::links::Links;
use ferrite_api_types::{Accounts, Issue, PullRequest};
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::{RefUpdate, RefsUpdated, ReleasePublished, RepositoryAction, RepositoryUpdated};
use ferrite_proto::git::{Commit, CommitSignature, DescribedCommit, Person, UpdateDescription, UpdateToDescribe};
use ferrite_proto::id::RepositoryId;
use ferrite_proto::repo;
use prost_types::Timestamp;
use serde_json::json;

use crate::payload::PayloadError;
use crate::payload::native::{self, Context, PushEvent};
use crate::store::events::StoredEvent;

const BRANCHES: &[u8] = b"refs/heads/";

/// Returns the user who caused an event, or zero.
fn sender_id(fact: &Fact) -> i64 {
    match fact {
        Fact::RefsUpdated(updated) => updated.user_id,
        Fact::IssueUpdated(updated) => updated.user_id,
        Fact::CommentChanged(changed) => changed.user_id,
        Fact::PullReviewed(reviewed) => reviewed.review.as_ref().map_or(0, |review| review.user_id),
        Fact::RepositoryCreated(created) => created.user_id,
        Fact::RepositoryDeleted(deleted) => deleted.user_id,
        Fact::RepositoryUpdated(updated) => updated.user_id,
        Fact::RepositoryForked(forked) => forked.user_id,
        Fact::ReleasePublished(published) => published.user_id,
        Fact::StatusCreated(created) => created.status.as_ref().map_or(0, |status| status.user_id),
        Fact::IssueChanged(_)
        | Fact::SizeChanged(_)
        | Fact::ProtectionChanged(_)
        | Fact::HookChanged(_)
        | Fact::OrganizationDeleted(_)
        | Fact::MigrationEnded(_)
        | Fact::MirrorChanged(_)
        | Fact::LanguageChanged(_) => 0,
    }
}

pub(super) fn account_ids(event: &StoredEvent) -> Vec<i64> {
    let Some(fact) = &event.fact.fact else { return Vec::new() };
    let mut ids = vec![sender_id(fact)];
    match fact {
        Fact::IssueUpdated(updated) => {
            ids.extend(updated.issue.iter().flat_map(PullRequest::account_ids));
            ids.push(updated.reviewer_id);
        }
        Fact::PullReviewed(reviewed) => ids.extend(reviewed.pull.iter().flat_map(PullRequest::account_ids)),
        Fact::CommentChanged(changed) => {
            ids.extend(changed.issue.iter().flat_map(Issue::account_ids));
            ids.extend(changed.comment.iter().map(|comment| comment.user_id));
        }
        Fact::ReleasePublished(published) => ids.push(author_id(published)),
        _ => {}
    }
    ids.retain(|id| *id != 0);
    ids
}

/// Returns the author of a published release, or zero.
fn author_id(published: &ReleasePublished) -> i64 {
    let author = published.release.as_ref().and_then(|release| release.author.as_ref());
    author.map_or(0, |author| author.id)
}

/// Returns the repository as stored in the fact.
pub(super) fn own_snapshot(event: &StoredEvent) -> Option<&repo::Repository> {
    match &event.fact.fact {
        Some(Fact::RepositoryCreated(created)) => created.repository.as_ref(),
        Some(Fact::RepositoryDeleted(deleted)) => deleted.repository.as_ref(),
        Some(Fact::RepositoryUpdated(updated)) => updated.repository.as_ref(),
        Some(Fact::RepositoryForked(forked)) => forked.fork.as_ref().and_then(|fork| fork.parent.as_deref()),
        _ => None,
    }
}

pub(super) fn told_fork(event: &StoredEvent) -> Option<&repo::Repository> {
    match &event.fact.fact {
        Some(Fact::RepositoryForked(forked)) => forked.fork.as_ref(),
        _ => None,
    }
}

/// Returns the repository of the head of a pull request, if it still exists.
pub(super) fn head_repository(event: &StoredEvent) -> Option<RepositoryId> {
    let pull = match &event.fact.fact {
        Some(Fact::IssueUpdated(updated)) => updated.issue.as_ref()?,
        Some(Fact::PullReviewed(reviewed)) => reviewed.pull.as_ref()?,
        _ => return None,
    };
    let head_id = pull.pull_request.as_ref()?.head_repository_id;
    (head_id != 0).then_some(RepositoryId(head_id))
}

/// Returns the short name of the branch that was created, moved or deleted. `None` for other
/// events.
pub(super) fn branch(event: &StoredEvent) -> Option<String> {
    let Some(Fact::RefsUpdated(updated)) = &event.fact.fact else { return None };
    Some(text(updated.updates.first()?.name.strip_prefix(BRANCHES)?))
}

/// Returns the ref update whose commits the payload lists. `None` for events without commits.
pub(super) fn described_update(event: &StoredEvent) -> Option<UpdateToDescribe> {
    match &event.fact.fact {
        Some(Fact::RefsUpdated(RefsUpdated { updates, .. })) if event.name == "push" => {
            let RefUpdate { name, old_id, new_id } = updates.first()?.clone();
            Some(UpdateToDescribe { name, old_id, new_id })
        }
        _ => None,
    }
}

/// Builds the native payload of an event. `description` lists the commits of a push; without it,
/// the payload has just the id of the newest one. `head` is another repository with the head of a
/// pull request, if all may see it. Fails if the fact does not fit the event or lacks a part.
pub(super) fn payload(
    event: &StoredEvent,
    repository: repo::Repository,
    accounts: &Accounts,
    links: &Links,
    description: Option<&UpdateDescription>,
    head: Option<&repo::Repository>,
) -> Result<String, PayloadError> {
    let fact = event.fact.fact.as_ref().ok_or(MissingField("fact"))?;
    let context = Context::new(repository, sender_id(fact), accounts, links)?;
    match (event.name.as_str(), fact) {
        ("create" | "delete" | "push", Fact::RefsUpdated(updated)) => {
            let update = updated.updates.first().ok_or(MissingField("updates"))?;
            ref_payload(event, &context, update, description)
        }
        ("issues", Fact::IssueUpdated(updated)) => native::issues(&context, updated),
        ("pull_request", Fact::IssueUpdated(updated)) => native::pull_request(&context, updated, head, links),
        ("pull_request_approved" | "pull_request_rejected" | "pull_request_comment", Fact::PullReviewed(reviewed)) => {
            native::pull_review(&context, reviewed, head, links)
        }
        ("issue_comment", Fact::CommentChanged(changed)) => native::issue_comment(&context, changed),
        ("repository", Fact::RepositoryCreated(_)) => native::repository(&context, "created", &[]),
        ("repository", Fact::RepositoryDeleted(_)) => native::repository(&context, "deleted", &[]),
        ("repository", Fact::RepositoryUpdated(updated)) => repository_payload(&context, updated),
        ("fork", Fact::RepositoryForked(forked)) => {
            native::fork(&context, forked.fork.clone().ok_or(MissingField("fork"))?, links)
        }
        ("release", Fact::ReleasePublished(published)) => {
            native::release(&context, published.release.as_ref().ok_or(MissingField("release"))?)
        }
        ("status", Fact::StatusCreated(created)) => {
            let status = created.status.as_ref().ok_or(MissingField("status"))?;
            native::status(&context, status, &described(created.commit.as_ref().ok_or(MissingField("commit"))?))
        }
        (name, _) => Err(PayloadError::UnknownEvent(name.to_owned())),
    }
}

/// Builds the payload of a repository change, with the previous values.
fn repository_payload(context: &Context, updated: &RepositoryUpdated) -> Result<String, PayloadError> {
    let after = updated.repository.as_ref().ok_or(MissingField("repository"))?;
    let mut changes = Vec::new();
    let action = match updated.action() {
        RepositoryAction::Renamed => "renamed",
        RepositoryAction::Transferred => {
            let owner = updated.old_owner.as_ref().ok_or(MissingField("old_owner"))?;
            changes.push(("owner", json!(owner.username)));
            "transferred"
        }
        RepositoryAction::Visibility => {
            changes.push(("private", json!(!after.is_private)));
            "visibility"
        }
        RepositoryAction::Archived => "archived",
        RepositoryAction::Unarchived => "unarchived",
        RepositoryAction::Unspecified => return Err(MissingField("action").into()),
    };
    if !updated.old_name.is_empty() && updated.old_name != after.name {
        changes.push(("name", json!(updated.old_name)));
    }
    native::repository(context, action, &changes)
}

fn ref_payload(
    event: &StoredEvent,
    context: &Context,
    update: &RefUpdate,
    description: Option<&UpdateDescription>,
) -> Result<String, PayloadError> {
    let name = text(&update.name);
    let (old_id, new_id) = (update.old_id.as_str(), update.new_id.as_str());
    match event.name.as_str() {
        "create" => native::create(context, &name, new_id),
        "delete" => native::delete(context, &name),
        _ => {
            let unknown = [unknown_commit(new_id, event.fact.event_time)];
            let (commits, total_commits, head) = match description.filter(|description| !description.is_missing) {
                Some(known) => (known.commits.as_slice(), known.total_commits, known.head.as_ref()),
                None => (unknown.as_slice(), 1, None),
            };
            native::push(context, &PushEvent { name: &name, old_id, new_id, commits, total_commits, head })
        }
    }
}

/// Builds the payload of a test: a push of the newest commit on the default branch.
pub(super) fn head_payload(
    context: &Context,
    branch: &[u8],
    parent_id: &str,
    head: &DescribedCommit,
) -> Result<String, PayloadError> {
    let name = format!("refs/heads/{}", text(branch));
    let zeros = "0".repeat(head.id.len());
    let old_id = if parent_id.is_empty() { &zeros } else { parent_id };
    let commits = std::slice::from_ref(head);
    native::push(context, &PushEvent { name: &name, old_id, new_id: &head.id, commits, total_commits: 1, head: None })
}

/// Stands in for a commit that no longer exists.
fn unknown_commit(id: &str, time: Option<Timestamp>) -> DescribedCommit {
    let committer = Some(Person { time, ..Person::default() });
    DescribedCommit { id: id.to_owned(), committer, is_message_cut: true, ..DescribedCommit::default() }
}

/// Returns the commit of a status as the payload shows it, without its paths.
fn described(commit: &Commit) -> DescribedCommit {
    let person = |signature: &CommitSignature| Person {
        name: text(&signature.name),
        email: text(&signature.email),
        time: signature.time,
    };
    DescribedCommit {
        id: commit.id.clone(),
        message: text(&commit.message),
        is_message_cut: commit.is_truncated,
        author: commit.author.as_ref().map(person),
        committer: commit.committer.as_ref().map(person),
        ..DescribedCommit::default()
    }
}

/// Returns the email addresses of the commits of statuses.
pub(super) fn emails_of_statuses(events: &[StoredEvent]) -> Vec<String> {
    let commits = events.iter().filter_map(|event| match &event.fact.fact {
        Some(Fact::StatusCreated(created)) => created.commit.as_ref().map(described),
        _ => None,
    });
    emails(commits.collect::<Vec<_>>().iter())
}

/// Returns the email addresses of the authors and committers.
pub(super) fn emails<'a>(commits: impl Iterator<Item = &'a DescribedCommit>) -> Vec<String> {
    let people = commits.flat_map(|commit| [&commit.author, &commit.committer]).flatten();
    let mut emails: Vec<_> = people.map(|person| person.email.clone()).filter(|email| !email.is_empty()).collect();
    emails.sort_unstable();
    emails.dedup();
    emails
}

#[cfg(test)]
mod tests {
    use ferrite_proto::events::{Event, RepositoryForked};
    use serde_json::Value;

    use super::*;
    use crate::store::events::Source;
    use crate::testing::repository;

    fn payload_of(name: &str, fact: Fact) -> Result<Value, PayloadError> {
        let event = StoredEvent {
            id: 1,
            uuid: String::new(),
            repository: RepositoryId(42),
            source: Source::Repo,
            name: name.to_owned(),
            fact: Event { fact: Some(fact), ..Event::default() },
            payload: None,
            revision: 0,
            happened_us: 1,
        };
        let links = Links::new("http://h", "h:22");
        let payload = payload(&event, repository(42, None), &Accounts::default(), &links, None, None)?;
        Ok(serde_json::from_str(&payload).unwrap())
    }

    fn updated(action: RepositoryAction, change: impl FnOnce(&mut RepositoryUpdated)) -> Value {
        let mut updated = RepositoryUpdated {
            action: action.into(),
            repository: Some(repo::Repository { is_private: true, ..repository(42, None) }),
            user_id: 7,
            ..RepositoryUpdated::default()
        };
        change(&mut updated);
        payload_of("repository", Fact::RepositoryUpdated(updated)).unwrap()
    }

    #[test]
    fn a_changed_repository_is_told_with_the_values_before() {
        use RepositoryAction::{Archived, Renamed, Transferred, Unarchived, Unspecified, Visibility};
        let renamed = updated(Renamed, |updated| updated.old_name = "old".to_owned());
        assert_eq!((&renamed["action"], &renamed["changes"]), (&json!("renamed"), &json!({"name": {"from": "old"}})));
        let old_owner = repo::User { username: "bob".to_owned(), ..repo::User::default() };
        let transferred = updated(Transferred, |updated| {
            (updated.old_owner, updated.old_name) = (Some(old_owner), repository(42, None).name);
        });
        assert_eq!(
            (&transferred["action"], &transferred["changes"]),
            (&json!("transferred"), &json!({"owner": {"from": "bob"}}))
        );
        let visibility = updated(Visibility, |_| {});
        assert_eq!(
            (&visibility["action"], &visibility["changes"]),
            (&json!("visibility"), &json!({"private": {"from": false}}))
        );
        for (action, word) in [(Archived, "archived"), (Unarchived, "unarchived")] {
            let archived = updated(action, |_| {});
            assert_eq!((&archived["action"], &archived["changes"]), (&json!(word), &json!({})));
            assert_eq!((&archived["sender"]["id"], &archived["repository"]["id"]), (&json!(7), &json!(42)));
        }
        let action = Unspecified.into();
        let fact = RepositoryUpdated { action, repository: Some(repository(42, None)), ..Default::default() };
        assert!(payload_of("repository", Fact::RepositoryUpdated(fact)).is_err());
    }

    #[test]
    fn forks_and_releases_are_told() {
        let parent = Some(Box::new(repository(42, None)));
        let fork = repo::Repository { is_fork: true, parent, ..repository(43, None) };
        let forked = RepositoryForked { fork: Some(fork), user_id: 7 };
        let payload = payload_of("fork", Fact::RepositoryForked(forked)).unwrap();
        assert_eq!((&payload["forkee"]["id"], &payload["forkee"]["fork"]), (&json!(43), &json!(true)));
        assert_eq!((&payload["repository"]["id"], &payload["sender"]["id"]), (&json!(42), &json!(7)));

        let release = repo::Release {
            id: 5,
            tag_name: "v1".to_owned(),
            target: "main".to_owned(),
            title: "One".to_owned(),
            body: "notes".to_owned(),
            author: Some(repo::User { id: 8, ..repo::User::default() }),
            create_time: Some(Timestamp { seconds: 1, nanos: 0 }),
            ..repo::Release::default()
        };
        let published = ReleasePublished { release: Some(release), user_id: 7 };
        assert_eq!(author_id(&published), 8);
        let payload = payload_of("release", Fact::ReleasePublished(published)).unwrap();
        assert_eq!(payload["action"], "published");
        let shown = ["id", "tag_name", "target_commitish", "name", "body"].map(|name| payload["release"][name].clone());
        assert_eq!(shown, [json!(5), json!("v1"), json!("main"), json!("One"), json!("notes")]);
        assert_eq!((&payload["release"]["author"]["id"], &payload["sender"]["id"]), (&json!(8), &json!(7)));
    }
}
