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
use crate::store::{Action, Target};

/// Level of a new collaborator if the request names none.
const DEFAULT_PERMISSION: Permission = Permission::Write;

/// The checked fields of a request. Without a permission, a collaborator keeps its level.
struct CheckedRequest {
    user: User,
    permission: Option<Permission>,
}

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<SetCollaboratorRequest>,
) -> Result<SetCollaboratorResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "SetCollaborator")?;
    let access = repeat::repository(state, &permit, request.get_ref().repository.clone());
    repeat::once(&state.db, key.as_ref(), access, set(state, request.into_inner(), &permit, key.as_ref())).await
}

impl CheckedRequest {
    async fn check(state: &AppState, owner: UserId, request: &SetCollaboratorRequest) -> Result<Self, RepoError> {
        let refuse = |code, message: &str| Err(FieldViolation::new(USER_FIELD, code, message));
        let user = match lookup::account(state, &request.username).await {
            Err(RepoError::UserNotFound) => refuse("unknown", "does not exist"),
            Err(error) => return Err(error),
            Ok(account) if account.id == owner => refuse("invalid", "is the owner"),
            Ok(account) if account.is_organization => refuse("invalid", "must not be an organization"),
            Ok(account) => Ok(account),
        };
        let permission = request.permission.as_deref().map(|word| parse_level(word, "permission")).transpose();
        let mut violations = Violations::default();
        match (violations.take(user), violations.take(permission)) {
            (Some(user), Some(permission)) => Ok(Self { user, permission }),
            _ => Err(violations.into_error()),
        }
    }
}

async fn set(
    state: &AppState,
    mut request: SetCollaboratorRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<SetCollaboratorResponse, RepoError> {
    let repository = permit.repository(&state.repositories, request.repository.take()).await?;
    let CheckedRequest { user, permission } =
        CheckedRequest::check(state, UserId(repository.owner_id), &request).await?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    state.repositories.lock(&mut tx, repository.id()).await?.ok_or(AuthError::RepositoryNotFound)?;
    let current = state.collaborators.level(&mut tx, repository.id(), user.id).await?;
    let default = if current == Permission::None { DEFAULT_PERMISSION } else { current };
    let permission = permission.unwrap_or(default);
    require_at_most(permit.level(&repository), [current, permission])?;
    if permission != current {
        let stored = state.collaborators.set(&mut tx, repository.id(), user.id, permission, now).await;
        stored.map_err(|error| match error {
            error if error.is_foreign_key() => RepoError::field(USER_FIELD, "unknown", "does not exist"),
            error => error.into(),
        })?;
        let details = [("user", user.username), ("permission", permission.to_string())];
        change::record(&mut tx, permit, Action::CollaboratorSet, Target::repository(&repository), &details, now)
            .await?;
    }
    change::commit(tx, key, SetCollaboratorResponse {}, now).await
}
