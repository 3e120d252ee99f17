use ferrite_core::telemetry;
use ferrite_core::timestamp;
use ferrite_proto::events::Event;
use ferrite_proto::events::event::Fact;
use ferrite_proto::id::RepositoryId;
use sha1::{Digest, Sha1};
use uuid::Uuid;

/// Returns the name of an event's kind in rows, logs and metrics.
#[must_use]
pub fn kind(event: &Event) -> &'static str {
    match &event.fact {
        Some(Fact::RepositoryCreated(_)) => "repository.created",
        Some(Fact::RepositoryDeleted(_)) => "repository.deleted",
        Some(Fact::RefsUpdated(_)) => "refs.updated",
        Some(Fact::IssueChanged(_)) => "issue.changed",
        Some(Fact::SizeChanged(_)) => "size.changed",
        Some(Fact::ProtectionChanged(_)) => "protection.changed",
        Some(Fact::IssueUpdated(_)) => "issue.updated",
        Some(Fact::CommentChanged(_)) => "comment.changed",
        Some(Fact::HookChanged(_)) => "hook.changed",
        Some(Fact::RepositoryUpdated(_)) => "repository.updated",
        Some(Fact::RepositoryForked(_)) => "repository.forked",
        Some(Fact::ReleasePublished(_)) => "release.published",
        Some(Fact::MigrationEnded(_)) => "migration.ended",
        Some(Fact::MirrorChanged(_)) => "mirror.changed",
        Some(Fact::StatusCreated(_)) => "status.created",
        Some(Fact::LanguageChanged(_)) => "language.changed",
        Some(Fact::PullReviewed(_)) => "pull.reviewed",
        Some(Fact::OrganizationDeleted(_)) => "organization.deleted",
        None => "unknown",
    }
}

/// Returns a new event about a repository, with a random id and the current trace context.
#[must_use]
pub fn event(repository: RepositoryId, now_us: i64, fact: Fact) -> Event {
    Event {
        event_id: Uuid::new_v4().to_string(),
        repository_id: repository.0,
        event_time: Some(timestamp(now_us)),
        trace_parent: telemetry::trace_parent(),
        fact: Some(fact),
    }
}

/// Returns a UUID (version 5 of RFC 9562) that is always the same for the same part of `whole`. For
/// events that may be written again after a crash: a subscriber that has the event ignores the
/// duplicate.
#[must_use]
pub fn part_uuid(whole: &str, part: i64) -> Uuid {
    let mut hash = Sha1::new();
    hash.update(Uuid::NAMESPACE_OID.as_bytes());
    hash.update(format!("{whole}/{part}"));
    let digest: [u8; 20] = hash.finalize().into();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_sha1_bytes(bytes).into_uuid()
}
