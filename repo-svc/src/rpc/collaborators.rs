//! Collaborators: users added to a repository, each with a level; and all users with a level.

use ferrite_db::idempotency::IdempotencyKey;
use ferrite_proto::error::FieldViolation;
use ferrite_proto::id::UserId;
use ferrite_proto::repo::collaborator_service_server::CollaboratorService;
use ferrite_proto::repo::*;
use ferrite_proto::{Permission, Scope, repo};
use ferrite_rpc::auth::AuthError;
use tonic::Request;

use super::authorized::Authorized;
use super::dispatch::{self, authorized_service};
use super::{change, encode, lookup, repeat};
use crate::access::Viewer;
use crate::error::RepoError;
use crate::model::{User, Violations, parse_level};
use crate::state::AppState;
use crate::store::{Action, RepositoryKey, Target, or_missing};

authorized_service!(CollaboratorService {
    list_collaborators(ListCollaboratorsRequest) -> ListCollaboratorsResponse;
    list_assignees(ListAssigneesRequest) -> ListAssigneesResponse;
    get_collaborator(GetCollaboratorRequest) -> GetCollaboratorResponse;
    get_collaborator_permission(GetCollaboratorPermissionRequest) -> GetCollaboratorPermissionResponse;
    set_collaborator(SetCollaboratorRequest) -> SetCollaboratorResponse;
    remove_collaborator(RemoveCollaboratorRequest) -> RemoveCollaboratorResponse;
});

/// The field in violations about the user.
const USER_FIELD: &str = "collaborator";
/// Level of a new collaborator if the request does not set one.
const DEFAULT_PERMISSION: Permission = Permission::Write;

async fn list_collaborators(
    state: &AppState,
    authorized: Authorized,
    request: Request<ListCollaboratorsRequest>,
) -> Result<ListCollaboratorsResponse, RepoError> {
    let request = request.into_inner();
    let repository = authorized.repository(&state.repositories, request.repository).await?;
    let page = lookup::page(request.page, request.page_size);
    let (rows, total_count) = state.collaborators.list(repository.id(), page).await?;
    let collaborators = rows.into_iter().map(|row| encode::collaborator(row, authorized.viewer())).collect();
    Ok(ListCollaboratorsResponse { collaborators, total_count })
}

async fn list_assignees(
    state: &AppState,
    authorized: Authorized,
    request: Request<ListAssigneesRequest>,
) -> Result<ListAssigneesResponse, RepoError> {
    let request = request.into_inner();
    let viewer = authorized.viewer();
    let repository = authorized.repository(&state.repositories, request.repository).await?;
    let with_private_members = match repository.organization() {
        None => false,
        Some(_) if authorized.level(&repository) >= Permission::Write => true,
        Some(_) if !viewer.scopes().contain(Scope::Org) => false,
        Some(_) => {
            let (organization, caller) = (UserId(repository.owner_id), authorized.user()?);
            state.organizations.membership(organization, caller).await?.is_some()
        }
    };
    let page = lookup::page(request.page, request.page_size);
    let (rows, total_count) = state.repositories.assignees(&repository, with_private_members, page).await?;
    Ok(ListAssigneesResponse { users: encode::users(rows, viewer), total_count })
}

async fn get_collaborator(
    state: &AppState,
    authorized: Authorized,
    request: Request<GetCollaboratorRequest>,
) -> Result<GetCollaboratorResponse, RepoError> {
    let request = request.into_inner();
    let repository = authorized.repository(&state.repositories, request.repository).await?;
    let account = match lookup::account(state, &request.username, authorized.viewer()).await {
        Err(RepoError::UserNotFound) => return Err(RepoError::field(USER_FIELD, "unknown", "does not exist")),
        account => account?,
    };
    let found = state.collaborators.find(repository.id(), account.id).await?;
    let found = found.ok_or(RepoError::CollaboratorNotFound)?;
    Ok(GetCollaboratorResponse { collaborator: Some(encode::collaborator(found, authorized.viewer())) })
}

/// Computes a user's permission, without what the user may do as an administrator of the site.
async fn get_collaborator_permission(
    state: &AppState,
    authorized: Authorized,
    request: Request<GetCollaboratorPermissionRequest>,
) -> Result<GetCollaboratorPermissionResponse, RepoError> {
    let request = request.into_inner();
    let repository = authorized.repository(&state.repositories, request.repository).await?;
    let user = lookup::user(state, &request.username).await?;
    let needed = Permission::Admin;
    if user.id != authorized.user()? && authorized.level(&repository) < needed {
        return Err(AuthError::PermissionRequired { needed }.into());
    }
    let subject = Viewer::account(user.id, false);
    let row = state.repositories.find(&RepositoryKey::Id(repository.id()), &subject).await?;
    let level = row.ok_or(AuthError::RepositoryNotFound)?.level(&subject);
    Ok(GetCollaboratorPermissionResponse {
        user: Some(encode::user(user, authorized.viewer())),
        permission: repo::Permission::from(level).into(),
    })
}

/// Sets a user's permission on a repository. Callers can grant at most their own level.
async fn set_collaborator(
    state: &AppState,
    authorized: Authorized,
    request: Request<SetCollaboratorRequest>,
) -> Result<SetCollaboratorResponse, RepoError> {
    let key =
        repeat::key_for_repository(state, &authorized, &request, "SetCollaborator", |request| &mut request.repository)
            .await?;
    let access = repeat::repository(state, &authorized, request.get_ref().repository.clone());
    repeat::once(&state.db, key.as_ref(), access, set(state, request.into_inner(), &authorized, key.as_ref())).await
}

/// If the request has no permission, an existing collaborator keeps its level.
async fn check(
    state: &AppState,
    owner: UserId,
    request: &SetCollaboratorRequest,
    viewer: &Viewer,
) -> Result<(User, Option<Permission>), RepoError> {
    let refuse = |code, message: &str| Err(FieldViolation::new(USER_FIELD, code, message));
    let user = match lookup::account(state, &request.username, viewer).await {
        Err(RepoError::UserNotFound) => refuse("unknown", "does not exist"),
        Err(error) => return Err(error),
        Ok(account) if account.id == owner => refuse("invalid", "already owns the repository"),
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
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<SetCollaboratorResponse, RepoError> {
    let repository = authorized.repository(&state.repositories, request.repository.take()).await?;
    let (user, permission) = check(state, UserId(repository.owner_id), &request, authorized.viewer()).await?;
    if let Some(wanted) = permission.filter(|wanted| *wanted < Permission::Admin) {
        let current = state.collaborators.find(repository.id(), user.id).await?;
        dispatch::refuse_at_commit_if(current.is_some_and(|current| wanted < current.permission));
    }
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    state.repositories.lock(&mut tx, repository.id()).await?.ok_or(AuthError::RepositoryNotFound)?;
    let current = state.collaborators.level(&mut tx, repository.id(), user.id).await?;
    let default = if current == Permission::None { DEFAULT_PERMISSION } else { current };
    let permission = permission.unwrap_or(default);
    require_at_most(authorized.level(&repository), [current, permission])?;
    dispatch::never_refuse_if(permission < current);
    if permission != current {
        let stored = state.collaborators.set(&mut tx, repository.id(), user.id, permission, now).await;
        stored.map_err(or_missing(RepoError::field(USER_FIELD, "unknown", "does not exist")))?;
        let details = [("user", user.username), ("permission", permission.to_string())];
        change::record(&mut tx, authorized, Action::CollaboratorSet, Target::repository(&repository), &details, now)
            .await?;
    }
    change::commit(tx, key, SetCollaboratorResponse {}, now).await
}

async fn remove_collaborator(
    state: &AppState,
    authorized: Authorized,
    request: Request<RemoveCollaboratorRequest>,
) -> Result<RemoveCollaboratorResponse, RepoError> {
    let key = repeat::key_for_repository(state, &authorized, &request, "RemoveCollaborator", |request| {
        &mut request.repository
    })
    .await?;
    let access = repeat::repository(state, &authorized, request.get_ref().repository.clone());
    repeat::once(&state.db, key.as_ref(), access, remove(state, request.into_inner(), &authorized, key.as_ref())).await
}

async fn remove(
    state: &AppState,
    request: RemoveCollaboratorRequest,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<RemoveCollaboratorResponse, RepoError> {
    let repository = authorized.repository(&state.repositories, request.repository).await?;
    let user = match lookup::account(state, &request.username, authorized.viewer()).await {
        Err(RepoError::UserNotFound) => return Err(RepoError::CollaboratorNotFound),
        account => account?,
    };
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    state.repositories.lock(&mut tx, repository.id()).await?.ok_or(AuthError::RepositoryNotFound)?;
    let current = state.collaborators.level(&mut tx, repository.id(), user.id).await?;
    require_at_most(authorized.level(&repository), [current, Permission::None])?;
    if !state.collaborators.remove(&mut tx, repository.id(), user.id).await? {
        return Err(RepoError::CollaboratorNotFound);
    }
    let (target, details) = (Target::repository(&repository), [("user", user.username)]);
    change::record(&mut tx, authorized, Action::CollaboratorRemove, target, &details, now).await?;
    change::commit(tx, key, RemoveCollaboratorResponse {}, now).await
}

/// Rejects the change if the collaborator has, or would get, a higher level than the caller
/// (`own`).
fn require_at_most(own: Permission, levels: [Permission; 2]) -> Result<(), AuthError> {
    match levels.into_iter().max() {
        Some(needed) if needed > own => Err(AuthError::PermissionRequired { needed }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_gives_and_takes_levels_up_to_its_own() {
        use Permission::{Admin, None, Owner, Read, Write};
        for own in [None, Read, Write, Admin, Owner] {
            for current in [None, Read, Write, Admin, Owner] {
                for wanted in [None, Read, Write, Admin, Owner] {
                    let may = require_at_most(own, [current, wanted]).is_ok();
                    assert_eq!(may, current <= own && wanted <= own, "{own} {current} {wanted}");
                }
            }
        }
    }
}
