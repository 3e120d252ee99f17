use ferrite_kit::timestamp;
use ferrite_proto::repo::{self, MigrationPhase};

use crate::store::{Migration, Phase, Progress};

/// Encodes a migration with how far it is: as its store says now, if it does, or else as the row has it.
pub(super) fn migration(row: Migration, live: Option<Progress>) -> repo::Migration {
    let progress = live.unwrap_or(row.progress());
    let phase = match progress.phase {
        Phase::Queued => MigrationPhase::Queued,
        Phase::Fetching => MigrationPhase::Fetching,
        Phase::Indexing => MigrationPhase::Indexing,
        Phase::Done => MigrationPhase::Done,
        Phase::Failed => MigrationPhase::Failed,
    };
    repo::Migration {
        id: row.id,
        full_name: format!("{}/{}", row.owner_name, row.name),
        phase: phase.into(),
        object_count: progress.object_count,
        received_bytes: progress.received_bytes,
        create_time: Some(timestamp(row.created_us)),
        finish_time: row.is_finished().then(|| timestamp(row.finished_us)),
        error: row.error,
    }
}
