use ferrite_kit::auth::Caller;
use ferrite_proto::{
    git::{self, GetMigrationRequest, GetMigrationResponse},
    id::RepositoryId,
};
use tonic::Request;

use crate::{
    db::{MigrationPhase, count},
    state::AppState,
    types::rpc_error::RpcError,
};

/// Returns how far a migration is.
pub(super) async fn get_migration(
    state: &AppState,
    request: Request<GetMigrationRequest>,
) -> Result<GetMigrationResponse, RpcError> {
    Caller::of(&request).require_service()?;
    let found = state.migrations.state(RepositoryId(request.into_inner().repository_id)).await?;
    let phase = match found.phase {
        MigrationPhase::Queued => git::MigrationPhase::Queued,
        MigrationPhase::Fetching => git::MigrationPhase::Fetching,
        MigrationPhase::Indexing => git::MigrationPhase::Indexing,
        MigrationPhase::Done => git::MigrationPhase::Done,
        MigrationPhase::Failed => git::MigrationPhase::Failed,
    };
    let (object_count, received_bytes) = (count(found.objects), count(found.bytes));
    Ok(GetMigrationResponse { phase: phase.into(), object_count, received_bytes, error: found.error })
}
