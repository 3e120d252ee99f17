use ferrite_api_types::convert::{MissingField, optional_time, time};
use ferrite_proto::repo::{self, MigrationPhase};
use serde::Serialize;

/// A migration of a repository from another host.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Migration {
    pub(crate) id: i64,
    repository: String,
    phase: &'static str,
    objects: i64,
    bytes: i64,
    /// The reason of a failure; empty if there was none.
    error: String,
    created_at: String,
    finished_at: Option<String>,
}

impl Migration {
    /// Converts a migration.
    ///
    /// # Errors
    /// When its phase or a time is missing.
    pub(crate) fn new(migration: repo::Migration) -> Result<Self, MissingField> {
        let phase = match migration.phase() {
            MigrationPhase::Queued => "queued",
            MigrationPhase::Fetching => "fetching",
            MigrationPhase::Indexing => "indexing",
            MigrationPhase::Done => "done",
            MigrationPhase::Failed => "failed",
            MigrationPhase::Unspecified => return Err(MissingField("phase")),
        };
        Ok(Self {
            id: migration.id,
            repository: migration.full_name,
            phase,
            objects: migration.object_count,
            bytes: migration.received_bytes,
            error: migration.error,
            created_at: time(migration.create_time, "create_time")?,
            finished_at: optional_time(migration.finish_time, "finish_time")?,
        })
    }
}
