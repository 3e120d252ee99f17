use ferrite_proto::events::Event;
use ferrite_proto::events::event::Fact;
use ferrite_proto::id::RepositoryId;

use crate::clock::timestamp;
use crate::telemetry;

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
        None => "unknown",
    }
}

/// Returns a new event about a repository, with a random id and the current position in the trace.
#[must_use]
pub fn event(repository: RepositoryId, now_us: i64, fact: Fact) -> Event {
    Event {
        event_id: uuid::Uuid::new_v4().to_string(),
        repository_id: repository.0,
        event_time: Some(timestamp(now_us)),
        trace_parent: telemetry::trace_parent(),
        fact: Some(fact),
    }
}
