//! `SetCollaborator`: a permission on a repository, at most the caller's own.

use ferrite_kit::auth::AuthError;
use ferrite_kit::idempotency::IdempotencyKey;
use ferrite_proto::Permission;
use ferrite_proto::error::FieldViolation;
use ferrite_proto::id::UserId;
use ferrite_proto::repo::{SetCollaboratorRequest, SetCollaboratorResponse};
use tonic::Request;

use super::super::{change, lookup, repeat};
use super::level_rule::{USER_FIELD, require_at_most};
use crate::error::RepoError;
use crate::model::{User, Violations, parse_level};
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, Target, or_missing};

/// Level of a new collaborator if the request names none.
const DEFAULT_PERMISSION: Permission = Permission::Write;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<SetCollaboratorRequest>,
) -> Result<SetCollaboratorResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "SetCollaborator")?;
    let access = repeat::repository(state, &permit, request.get_ref().repository.clone());
    repeat::once(&state.db, key.as_ref(), access, set(state, request.into_inner(), &permit, key.as_ref())).await
}

/// Checks a request. Without a permission, a collaborator keeps its level.
async fn check(
    state: &AppState,
    owner: UserId,
    request: &SetCollaboratorRequest,
) -> Result<(User, Option<Permission>), RepoError> {
    let refuse = |code, message: &str| Err(FieldViolation::new(USER_FIELD, code, message));
    let user = match lookup::account(state, &request.username).await {
        Err(RepoError::UserNotFound) => refuse("unknown", "does not exist"),
        Err(error) => return Err(error),
        Ok(account) if account.id == owner => refuse("invalid", "is the owner"),
        Ok(account) if account.is_organization => refuse("invalid", "must not be an organization"),
        Ok(account) => Ok(account),
    };
    let mut violations = Violations::default();
    let user = violations.take(user);
    let permission = violations.take_optional(request.permission.as_deref(), "permission", parse_level);
    user.zip(permission).ok_or_else(|| violations.into_error())
}

async fn set(
    state: &AppState,
    mut request: SetCollaboratorRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<SetCollaboratorResponse, RepoError> {
    let repository = permit.repository(&state.repositories, request.repository.take()).await?;
    let (user, permission) = check(state, UserId(repository.owner_id), &request).await?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    state.repositories.lock(&mut tx, repository.id()).await?.ok_or(AuthError::RepositoryNotFound)?;
    let current = state.collaborators.level(&mut tx, repository.id(), user.id).await?;
    let default = if current == Permission::None { DEFAULT_PERMISSION } else { current };
    let permission = permission.unwrap_or(default);
    require_at_most(permit.level(&repository), [current, permission])?;
    if permission != current {
        let stored = state.collaborators.set(&mut tx, repository.id(), user.id, permission, now).await;
        stored.map_err(or_missing(RepoError::field(USER_FIELD, "unknown", "does not exist")))?;
        let details = [("user", user.username), ("permission", permission.to_string())];
        change::record(&mut tx, permit, Action::CollaboratorSet, Target::repository(&repository), &details, now)
            .await?;
    }
    change::commit(tx, key, SetCollaboratorResponse {}, now).await
}
