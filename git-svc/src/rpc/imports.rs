//! The RPCs of imports and mirrors.

use ferrite_core::Secret;
use ferrite_db::idempotency::{IdempotencyKey, once};
use ferrite_listener::service;
use ferrite_proto::{
    git::{
        self, GetMigrationRequest, GetMigrationResponse, StartMigrationRequest, StartMigrationResponse,
        SyncMirrorRequest, SyncMirrorResponse, UpdateMirrorRequest, UpdateMirrorResponse,
        migration_service_server::MigrationService, mirror_service_server::MirrorService,
    },
    id::RepositoryId,
};
use ferrite_rpc::auth::Caller;
use git_store::types::{error::GitError, name::BranchName, protection::Actor};
use tonic::Request;

use super::{authorize, finish};
use crate::{
    db::{ImportPhase, count},
    imports::NewImport,
    rpc_error::RpcError,
    state::AppState,
};

service!(MigrationService for AppState {
    start_migration(StartMigrationRequest) -> StartMigrationResponse;
    get_migration(GetMigrationRequest) -> GetMigrationResponse;
});

service!(MirrorService for AppState {
    sync_mirror(SyncMirrorRequest) -> SyncMirrorResponse;
    update_mirror(UpdateMirrorRequest) -> UpdateMirrorResponse;
});

async fn start_migration(
    state: &AppState,
    request: Request<StartMigrationRequest>,
) -> Result<StartMigrationResponse, RpcError> {
    Caller::of(&request).require_service()?;
    let new = parse(state, request.into_inner())?;
    finish(state, async move |state| state.imports.start(new).await).await?;
    Ok(StartMigrationResponse {})
}

fn parse(state: &AppState, request: StartMigrationRequest) -> Result<NewImport, GitError> {
    let (id, wiki) = (request.repository_id, request.wiki_repository_id);
    if id <= 0 {
        return Err(GitError::invalid("repository_id", "invalid", "must be greater than 0"));
    }
    if wiki < 0 || wiki == id {
        return Err(GitError::invalid("wiki_repository_id", "invalid", "must be 0 or differ from `repository_id`"));
    }
    if request.store != state.store.name() {
        return Err(GitError::WrongStore);
    }
    let default_branch =
        BranchName::parse(request.default_branch.as_bytes()).map_err(|error| error.of("default_branch"))?;
    Ok(NewImport {
        id: RepositoryId(id),
        epoch: request.epoch,
        user: request.user_id,
        default_branch,
        url: request.url,
        username: request.username,
        password: Secret::new(request.password),
        interval_secs: request.mirror_interval_seconds,
        wiki: (wiki > 0).then_some(RepositoryId(wiki)),
    })
}

async fn get_migration(
    state: &AppState,
    request: Request<GetMigrationRequest>,
) -> Result<GetMigrationResponse, RpcError> {
    Caller::of(&request).require_service()?;
    let found = state.imports.state(RepositoryId(request.into_inner().repository_id)).await?;
    let phase = match found.phase {
        ImportPhase::Queued => git::MigrationPhase::Queued,
        ImportPhase::Fetching => git::MigrationPhase::Fetching,
        ImportPhase::Indexing => git::MigrationPhase::Indexing,
        ImportPhase::Done => git::MigrationPhase::Done,
        ImportPhase::Failed => git::MigrationPhase::Failed,
    };
    let (object_count, received_bytes) = (count(found.objects), count(found.bytes));
    Ok(GetMigrationResponse { phase: phase.into(), object_count, received_bytes, error: found.error })
}

/// Makes a mirror due now.
async fn sync_mirror(state: &AppState, request: Request<SyncMirrorRequest>) -> Result<SyncMirrorResponse, RpcError> {
    let (_, id) = authorize(state, request, |request| request.repository_id).await?;
    state.imports.sync_soon(id).await?;
    Ok(SyncMirrorResponse {})
}

/// Changes the sync interval of a mirror.
async fn update_mirror(
    state: &AppState,
    request: Request<UpdateMirrorRequest>,
) -> Result<UpdateMirrorResponse, RpcError> {
    let (id, seconds) = (RepositoryId(request.get_ref().repository_id), request.get_ref().interval_seconds);
    let grant = state.authorize(&Caller::of(&request), id).await?;
    let key = IdempotencyKey::of(&request, Actor::of(&grant).user, "UpdateMirror")?;
    let write = async move |state: AppState| {
        once(&state.db, key.as_ref(), state.imports.set_interval(id, seconds, key.as_ref())).await
    };
    finish(state, write).await
}
