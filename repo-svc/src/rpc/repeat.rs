//! Repeated requests with an idempotency key. Checks the caller's access again before returning a
//! stored response.
//!
//! Operations whose whole rule [`Authorized`] has already checked, and deletions, call
//! [`ferrite_db::idempotency::once`] directly.

use std::future::Future;

use ferrite_db::Db;
use ferrite_db::{
    idempotency,
    idempotency::{IdempotencyError, IdempotencyKey},
};
use ferrite_proto::id::{RepositoryId, TeamId};
use ferrite_proto::repo::{Repository, RepositoryRef};
use prost::Message;
use tonic::Request;

use super::authorized::{Authorized, repository_key};
use super::encode;
use crate::access::Capacity;
use crate::error::RepoError;
use crate::state::AppState;
use crate::store::RepositoryKey;

/// Returns the idempotency key of a request. `reference` selects its repository; requests that name
/// the same repository in different ways get the same hash.
pub(super) async fn key_for_repository<T: Message + Clone>(
    state: &AppState,
    authorized: &Authorized,
    request: &Request<T>,
    method: &str,
    reference: fn(&mut T) -> &mut Option<RepositoryRef>,
) -> Result<Option<IdempotencyKey>, RepoError> {
    let Some(key) = key_for_name(authorized, request, method, reference)? else { return Ok(None) };
    let mut content = request.get_ref().clone();
    let by = reference(&mut content).clone();
    let found = match authorized.visible_repository_by_any_name(&state.repositories, by.clone()).await {
        Ok(found) => found,
        // Then the write fails by itself, unless the operation needs no access to the repository.
        // The first request may have had access.
        Err(RepoError::Auth(_) | RepoError::Invalid(_)) => {
            let by = by.and_then(|reference| reference.by).and_then(|by| repository_key(&by));
            let Some(by) = by else { return Ok(Some(key)) };
            let Some(hidden) = state.repositories.find(&by, authorized.viewer()).await? else { return Ok(Some(key)) };
            hidden
        }
        Err(error) => return Err(error),
    };
    let (owner, id) = (found.owner_name.clone(), found.id());
    *reference(&mut content) = Some(RepositoryRef::by_name(owner, found.name));
    let key = key.in_form(&content);
    *reference(&mut content) = Some(RepositoryRef::by_id(id));
    Ok(Some(key.in_form(&content)))
}

/// Like [`key_for_repository`], but uses only the case-folded name. For requests after which the
/// repository cannot be looked up.
pub(super) fn key_for_name<T: Message + Clone>(
    authorized: &Authorized,
    request: &Request<T>,
    method: &str,
    reference: fn(&mut T) -> &mut Option<RepositoryRef>,
) -> Result<Option<IdempotencyKey>, RepoError> {
    let Some(key) = IdempotencyKey::of(request, authorized.user()?.0, method)? else { return Ok(None) };
    let mut content = request.get_ref().clone();
    let by = reference(&mut content).as_ref().and_then(|reference| reference.by.as_ref());
    let Some(RepositoryKey::Name { owner, name }) = by.and_then(repository_key) else { return Ok(Some(key)) };
    *reference(&mut content) = Some(RepositoryRef::by_name(owner, name));
    Ok(Some(key.in_form(&content)))
}

/// Returns the stored response of `key` if `access` still succeeds. Otherwise runs `write`, which
/// checks access itself.
pub(super) async fn once<A: Message + Default>(
    db: &Db,
    key: Option<&IdempotencyKey>,
    access: impl Future<Output = Result<(), RepoError>>,
    write: impl Future<Output = Result<A, RepoError>>,
) -> Result<A, RepoError> {
    check_access(db, key, access).await?;
    idempotency::once(db, key, write).await
}

/// Like [`once`], for responses that may be too large to store: `rebuild` makes them from their
/// subject.
pub(super) async fn once_or_rebuild<A, S, R>(
    db: &Db,
    key: Option<&IdempotencyKey>,
    access: impl Future<Output = Result<(), RepoError>>,
    rebuild: impl FnOnce(S) -> R,
    write: impl Future<Output = Result<A, RepoError>>,
) -> Result<A, RepoError>
where
    A: Message + Default,
    S: Message + Default,
    R: Future<Output = Result<A, RepoError>>,
{
    check_access(db, key, access).await?;
    idempotency::once_or_rebuild(db, key, rebuild, write).await
}

async fn check_access(
    db: &Db,
    key: Option<&IdempotencyKey>,
    access: impl Future<Output = Result<(), RepoError>>,
) -> Result<(), RepoError> {
    match key {
        Some(key) if key.is_used(db).await.map_err(IdempotencyError::from)? => access.await,
        _ => Ok(()),
    }
}

/// Rebuilds a response that was too large to store: the repository as the caller sees it now.
pub(super) async fn read_repository(
    state: &AppState,
    authorized: &Authorized,
    id: i64,
) -> Result<Repository, RepoError> {
    let by_id = Some(RepositoryRef::by_id(RepositoryId(id)));
    let row = authorized.visible_repository_with_parent(&state.repositories, by_id).await?;
    Ok(encode::repository_with_parent(row, authorized.viewer()))
}

/// Checks access to the repository. Resolves former names, because the first request may have
/// renamed it.
pub(super) async fn repository(
    state: &AppState,
    authorized: &Authorized,
    repository: Option<RepositoryRef>,
) -> Result<(), RepoError> {
    authorized.repository_by_any_name(&state.repositories, repository).await.map(drop)
}

/// Checks that the caller can see the repository, for operations whose rule does not involve it.
pub(super) async fn visible_repository(
    state: &AppState,
    authorized: &Authorized,
    repository: Option<RepositoryRef>,
) -> Result<(), RepoError> {
    authorized.visible_repository_by_any_name(&state.repositories, repository).await.map(drop)
}

/// Checks the role in the organization. Administrators acting as such need none.
pub(super) async fn organization(state: &AppState, authorized: &Authorized, name: String) -> Result<(), RepoError> {
    if authorized.capacity() == Capacity::Administrator {
        return Ok(());
    }
    authorized.organization(&state.organizations, &name).await.map(drop)
}

/// Checks the role in the team's organization.
pub(super) async fn team(state: &AppState, authorized: &Authorized, id: i64) -> Result<(), RepoError> {
    authorized.team(&state.teams, TeamId(id)).await.map(drop)
}
