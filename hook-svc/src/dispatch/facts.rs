//! From the fact of an event to its native payload.
//!
//! Not here: the lookups of what the payload needs beside the fact (`render`).

use ferrite_proto::events::event::Fact;
use ferrite_proto::events::{RefUpdate, RefsUpdated};
use ferrite_proto::git::{DescribedCommit, Person, UpdateDescription, UpdateToDescribe};
use ferrite_proto::repo;
use ferrite_rest::convert::{MissingField, text};
use ferrite_rest::links::Links;
use ferrite_rest::{Accounts, Issue};
use prost_types::Timestamp;

use crate::payload::PayloadError;
use crate::payload::native::{
    self, CommentEvent, Commit, Context, IssueEvent, PushEvent, RefEvent, RepositoryAction, Signature,
};
use crate::store::events::StoredEvent;

/// Returns the user who caused an event; zero for none.
fn sender_id(fact: &Fact) -> i64 {
    match fact {
        Fact::RefsUpdated(updated) => updated.user_id,
        Fact::IssueUpdated(updated) => updated.user_id,
        Fact::CommentChanged(changed) => changed.user_id,
        Fact::RepositoryCreated(created) => created.user_id,
        Fact::RepositoryDeleted(deleted) => deleted.user_id,
        Fact::IssueChanged(_) | Fact::SizeChanged(_) | Fact::ProtectionChanged(_) | Fact::HookChanged(_) => 0,
    }
}

/// Returns the accounts that an event names.
pub(super) fn account_ids(event: &StoredEvent) -> Vec<i64> {
    let Some(fact) = &event.fact.fact else { return Vec::new() };
    let mut ids = vec![sender_id(fact)];
    match fact {
        Fact::IssueUpdated(updated) => ids.extend(updated.issue.iter().flat_map(Issue::account_ids)),
        Fact::CommentChanged(changed) => {
            ids.extend(changed.issue.iter().flat_map(Issue::account_ids));
            ids.extend(changed.comment.iter().map(|comment| comment.user_id));
        }
        _ => {}
    }
    ids.retain(|id| *id != 0);
    ids
}

/// Returns the repository as the fact has it.
pub(super) fn own_snapshot(event: &StoredEvent) -> Option<&repo::Repository> {
    match &event.fact.fact {
        Some(Fact::RepositoryCreated(created)) => created.repository.as_ref(),
        Some(Fact::RepositoryDeleted(deleted)) => deleted.repository.as_ref(),
        _ => None,
    }
}

/// Returns the update whose commits the payload has; `None` for an event without commits.
pub(super) fn described_update(event: &StoredEvent) -> Option<UpdateToDescribe> {
    match &event.fact.fact {
        Some(Fact::RefsUpdated(RefsUpdated { updates, .. })) if event.name == "push" => {
            let RefUpdate { name, old_id, new_id } = updates.first()?.clone();
            Some(UpdateToDescribe { name, old_id, new_id })
        }
        _ => None,
    }
}

/// Returns the native payload of an event. `description` has the commits of a push; without it the payload has the newest one by its id.
///
/// # Errors
/// When the fact is not one of the event, or lacks a part.
pub(super) fn payload(
    event: &StoredEvent,
    repository: repo::Repository,
    accounts: &Accounts,
    links: &Links,
    description: Option<&UpdateDescription>,
) -> Result<String, PayloadError> {
    let fact = event.fact.fact.as_ref().ok_or(MissingField("fact"))?;
    let context = Context::new(repository, sender_id(fact), accounts, links)?;
    match (event.name.as_str(), fact) {
        ("create" | "delete" | "push", Fact::RefsUpdated(updated)) => {
            let update = updated.updates.first().ok_or(MissingField("updates"))?;
            ref_payload(event, &context, update, description)
        }
        ("issues", Fact::IssueUpdated(updated)) => {
            let issue = updated.issue.clone().ok_or(MissingField("issue"))?;
            let (old_title, old_body) = (updated.old_title.clone(), updated.old_body.clone());
            native::issues(&context, &IssueEvent { action: updated.action(), issue, old_title, old_body })
        }
        ("issue_comment", Fact::CommentChanged(changed)) => {
            let issue = changed.issue.clone().ok_or(MissingField("issue"))?;
            let comment = changed.comment.clone().ok_or(MissingField("comment"))?;
            let old_body = changed.old_body.clone();
            native::issue_comment(&context, &CommentEvent { action: changed.action(), issue, comment, old_body })
        }
        ("repository", Fact::RepositoryCreated(_)) => native::repository(&context, RepositoryAction::Created, &[]),
        ("repository", Fact::RepositoryDeleted(_)) => native::repository(&context, RepositoryAction::Deleted, &[]),
        (name, _) => Err(PayloadError::UnknownEvent(name.to_owned())),
    }
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
        "create" => native::create(context, RefEvent { name: &name, new_id }),
        "delete" => native::delete(context, RefEvent { name: &name, new_id }),
        _ => {
            let known = description.filter(|description| !description.is_missing);
            let (commits, total_commits) = match known {
                Some(known) => (known.commits.iter().map(commit).collect(), known.total_commits),
                None => (vec![unknown_commit(new_id, event.fact.event_time.unwrap_or_default())], 1),
            };
            native::push(context, &PushEvent { name: &name, old_id, new_id, commits: &commits, total_commits })
        }
    }
}

/// Returns the payload of a test: a push of the newest commit of the default branch.
pub(super) fn head_payload(
    context: &Context,
    branch: &[u8],
    parent_id: &str,
    head: &DescribedCommit,
) -> Result<String, PayloadError> {
    let name = format!("refs/heads/{}", text(branch));
    let zeros = "0".repeat(head.id.len());
    let old_id = if parent_id.is_empty() { &zeros } else { parent_id };
    let commits = [commit(head)];
    native::push(context, &PushEvent { name: &name, old_id, new_id: &head.id, commits: &commits, total_commits: 1 })
}

/// Returns what is known of a commit that does not exist any more.
fn unknown_commit(id: &str, time: Timestamp) -> Commit {
    let nobody = Signature { time, ..Signature::default() };
    Commit { id: id.to_owned(), author: nobody.clone(), committer: nobody, is_cut: true, ..Commit::default() }
}

fn commit(described: &DescribedCommit) -> Commit {
    Commit {
        id: described.id.clone(),
        message: described.message.clone(),
        author: signature(described.author.as_ref()),
        committer: signature(described.committer.as_ref()),
        added: described.added.clone(),
        removed: described.removed.clone(),
        modified: described.modified.clone(),
        is_cut: described.is_message_cut || described.are_paths_cut,
    }
}

fn signature(person: Option<&Person>) -> Signature {
    let person = person.cloned().unwrap_or_default();
    Signature { name: person.name, email: person.email, time: person.time.unwrap_or_default() }
}

/// Returns the addresses of the authors and committers of commits.
pub(super) fn emails<'a>(commits: impl Iterator<Item = &'a DescribedCommit>) -> Vec<String> {
    let people = commits.flat_map(|commit| [&commit.author, &commit.committer]).flatten();
    let mut emails: Vec<_> = people.map(|person| person.email.clone()).filter(|email| !email.is_empty()).collect();
    emails.sort_unstable();
    emails.dedup();
    emails
}
