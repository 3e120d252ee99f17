//! `ReauthorizeAccess`: a new decision about an access that was given, by the id of its credential.

use ferrite_kit::auth::AuthError;
use ferrite_proto::id::UserId;
use ferrite_proto::repo::reauthorize_access_request::Credential;
use ferrite_proto::repo::{Identity, ReauthorizeAccessRequest, ReauthorizeAccessResponse, RepositoryRef};
use tonic::Request;

use super::resolve_access::{for_ssh_key, require_git_body};
use super::wiki;
use crate::access::Capacity;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::Repository;

pub(super) async fn handle(
    state: &AppState,
    _: Permit,
    request: Request<ReauthorizeAccessRequest>,
) -> Result<ReauthorizeAccessResponse, RepoError> {
    decide(state, &request, request.get_ref()).await?;
    Ok(ReauthorizeAccessResponse {})
}

/// Decides anew about `access`, which `request` asks about. Returns the caller of the access and the repository.
///
/// # Errors
/// Those of the operation for a caller who may not do it any more, and [`RepoError::Invalid`] for a request with a caller of its own.
pub(super) async fn decide<T>(
    state: &AppState,
    request: &Request<T>,
    access: &ReauthorizeAccessRequest,
) -> Result<(Permit, Repository), RepoError> {
    let permit = Permit::for_operation(request, &access.operation, Capacity::Own)?;
    if permit.identity().is_ok() {
        return Err(RepoError::field("credential", "invalid", "is for nothing beside it"));
    }
    let with = |permit: Permit, identity: Identity| {
        if access.is_git { permit.for_git(identity) } else { permit.for_identity(identity) }
    };
    let mut permit = match &access.credential {
        None => permit,
        Some(Credential::TokenId(id)) => with(permit, state.credentials.recheck_token(*id).await?),
        Some(Credential::SshFingerprint(fingerprint)) => for_ssh_key(state, permit, fingerprint).await?,
        Some(Credential::Password(password)) => {
            let user = UserId(password.user_id);
            with(permit, state.credentials.recheck_password(user, &password.digest).await?)
        }
    };
    if access.is_wiki {
        require_git_body(&permit, "is_wiki")?;
        permit = permit.for_wiki();
    }
    let reference = RepositoryRef::by_id(access.repository_id);
    let repository = permit.repository(&state.repositories, Some(reference)).await?;
    if access.is_wiki && !wiki::is_made(state, &repository).await? {
        return Err(AuthError::RepositoryNotFound.into());
    }
    Ok((permit, repository))
}
