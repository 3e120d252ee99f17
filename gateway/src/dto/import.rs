use ferrite_api_types::convert::{MissingField, optional_time, time};
use ferrite_proto::repo::{self, MigrationPhase};
use serde::Serialize;

/// An import of a repository from another host.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Import {
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

impl Import {
    /// Converts an import.
    ///
    /// # Errors
    /// When its phase or a time is missing.
    pub(crate) fn new(import: repo::Migration) -> Result<Self, MissingField> {
        let phase = match import.phase() {
            MigrationPhase::Queued => "queued",
            MigrationPhase::Fetching => "fetching",
            MigrationPhase::Indexing => "indexing",
            MigrationPhase::Done => "done",
            MigrationPhase::Failed => "failed",
            MigrationPhase::Unspecified => return Err(MissingField("phase")),
        };
        Ok(Self {
            id: import.id,
            repository: import.full_name,
            phase,
            objects: import.object_count,
            bytes: import.received_bytes,
            error: import.error,
            created_at: time(import.create_time, "create_time")?,
            finished_at: optional_time(import.finish_time, "finish_time")?,
        })
    }
}
