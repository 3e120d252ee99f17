use ferrite_kit::auth::AuthError;
use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::Permission;
use ferrite_proto::repo::{RemoveCollaboratorRequest, RemoveCollaboratorResponse};
use tonic::Request;

use super::super::{change, lookup};
use super::require_at_most;
use crate::RepoError;
use crate::access::Permit;
use crate::core::Core;
use crate::store::{Action, Target};

pub(super) async fn handle(
    core: &Core,
    permit: Permit,
    request: Request<RemoveCollaboratorRequest>,
) -> Result<RemoveCollaboratorResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "RemoveCollaborator")?;
    once(&core.db, key.as_ref(), remove(core, request.into_inner(), &permit, key.as_ref())).await
}

async fn remove(
    core: &Core,
    request: RemoveCollaboratorRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<RemoveCollaboratorResponse, RepoError> {
    let repository = permit.repository(core, request.repository).await?;
    let user = match lookup::account(core, &request.username).await {
        Err(RepoError::UserNotFound) => return Err(RepoError::CollaboratorNotFound),
        account => account?,
    };
    let now = core.clock.now_us();
    let mut tx = core.db.begin().await?;
    core.repositories.turn(&mut tx, repository.id()).await?.ok_or(AuthError::RepositoryNotFound)?;
    let current = core.collaborators.level(&mut tx, repository.id(), user.id).await?;
    require_at_most(permit.level(&repository), [current, Permission::None])?;
    if !core.collaborators.remove(&mut tx, repository.id(), user.id).await? {
        return Err(RepoError::CollaboratorNotFound);
    }
    let (target, details) = (Target::repository(&repository), [("user", user.username)]);
    change::record(&mut tx, permit, Action::CollaboratorRemove, target, &details, now).await?;
    change::commit(tx, key, RemoveCollaboratorResponse {}, now).await
}
