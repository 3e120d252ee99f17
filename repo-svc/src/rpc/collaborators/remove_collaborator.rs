use ferrite_kit::auth::AuthError;
use ferrite_kit::idempotency::IdempotencyKey;
use ferrite_proto::Permission;
use ferrite_proto::repo::{RemoveCollaboratorRequest, RemoveCollaboratorResponse};
use tonic::Request;

use super::super::{change, lookup, repeat};
use super::level_rule::require_at_most;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, Target};

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<RemoveCollaboratorRequest>,
) -> Result<RemoveCollaboratorResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "RemoveCollaborator")?;
    let access = repeat::repository(state, &permit, request.get_ref().repository.clone());
    repeat::once(&state.db, key.as_ref(), access, remove(state, request.into_inner(), &permit, key.as_ref())).await
}

async fn remove(
    state: &AppState,
    request: RemoveCollaboratorRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<RemoveCollaboratorResponse, RepoError> {
    let repository = permit.repository(&state.repositories, request.repository).await?;
    let user = match lookup::account(state, &request.username).await {
        Err(RepoError::UserNotFound) => return Err(RepoError::CollaboratorNotFound),
        account => account?,
    };
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    state.repositories.lock(&mut tx, repository.id()).await?.ok_or(AuthError::RepositoryNotFound)?;
    let current = state.collaborators.level(&mut tx, repository.id(), user.id).await?;
    require_at_most(permit.level(&repository), [current, Permission::None])?;
    if !state.collaborators.remove(&mut tx, repository.id(), user.id).await? {
        return Err(RepoError::CollaboratorNotFound);
    }
    let (target, details) = (Target::repository(&repository), [("user", user.username)]);
    change::record(&mut tx, permit, Action::CollaboratorRemove, target, &details, now).await?;
    change::commit(tx, key, RemoveCollaboratorResponse {}, now).await
}
