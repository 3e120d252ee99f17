use ferrite_kit::{Secret, auth::Caller};
use ferrite_proto::{
    git::{StartMigrationRequest, StartMigrationResponse},
    id::RepositoryId,
};
use tonic::Request;

use crate::{
    migration::NewMigration,
    rpc::finish,
    state::AppState,
    types::{error::GitError, name::BranchName, rpc_error::RpcError},
};

/// Notes a migration.
pub(super) async fn start_migration(
    state: &AppState,
    request: Request<StartMigrationRequest>,
) -> Result<StartMigrationResponse, RpcError> {
    Caller::of(&request).require_service()?;
    let new = parse(state, request.into_inner())?;
    finish(state, async move |state| state.migrations.start(new).await).await?;
    Ok(StartMigrationResponse {})
}

fn parse(state: &AppState, request: StartMigrationRequest) -> Result<NewMigration, GitError> {
    let (id, wiki) = (request.repository_id, request.wiki_repository_id);
    if id <= 0 {
        return Err(GitError::invalid("repository_id", "invalid", "must be above 0"));
    }
    if wiki < 0 || wiki == id {
        return Err(GitError::invalid("wiki_repository_id", "invalid", "must be another id, or 0"));
    }
    if request.store != state.store.name() {
        return Err(GitError::WrongStore);
    }
    let default_branch =
        BranchName::parse(request.default_branch.as_bytes()).map_err(|error| error.of("default_branch"))?;
    Ok(NewMigration {
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
