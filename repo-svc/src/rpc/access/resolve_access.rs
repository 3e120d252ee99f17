//! `ResolveAccess`: the repository, and a grant for one operation on it, for a token, a password, or an SSH key.

use ferrite_kit::auth::AuthError;
use ferrite_proto::grant::{Grant, GrantUser, IssueReach};
use ferrite_proto::operation;
use ferrite_proto::repo::{Identity, ResolveAccessRequest, ResolveAccessResponse};
use tonic::Request;

use super::super::encode;
use crate::access::Capacity;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{KeyHolder, Repository, key_holder};

/// Operations that move refs, so that the messages of commits may close issues.
const OPERATIONS_ON_REFS: [&str; 4] =
    [operation::RECEIVE_PACK, operation::PUT_CONTENTS, operation::DELETE_CONTENTS, operation::CHANGE_FILES];

/// For services only: a grant is valid for up to a minute after its token was revoked, so users never get one.
pub(super) async fn handle(
    state: &AppState,
    _: Permit,
    request: Request<ResolveAccessRequest>,
) -> Result<ResolveAccessResponse, RepoError> {
    let mut permit = Permit::for_operation(&request, &request.get_ref().operation, Capacity::Own)?;
    let request = request.into_inner();
    // Only git clients authenticate by HTTP Basic.
    if let Some(credential) = &request.basic {
        let identity = state.credentials.check_basic(credential, permit.client_address()).await?;
        permit = permit.for_git(identity);
    }
    if let Some(fingerprint) = &request.ssh_fingerprint {
        permit = for_ssh_key(state, permit, fingerprint, request.basic.is_some()).await?;
    }
    let repository = permit.repository(&state.repositories, request.repository).await?;
    let grant = state.grants.sign(grant(&permit, &repository));
    let identity = permit.identity().ok().cloned();
    Ok(ResolveAccessResponse { repository: Some(encode::repository(repository, permit.viewer())), grant, identity })
}

/// Returns the permit for the holder of an SSH key.
async fn for_ssh_key(state: &AppState, permit: Permit, fingerprint: &str, is_basic: bool) -> Result<Permit, RepoError> {
    if is_basic || ![operation::UPLOAD_PACK, operation::RECEIVE_PACK].contains(&permit.operation()) {
        return Err(RepoError::field("ssh_fingerprint", "invalid", "is for git's bodies, and for nothing beside it"));
    }
    match key_holder(&state.db, fingerprint).await? {
        Some(KeyHolder::User(identity)) => Ok(permit.for_git(identity)),
        Some(KeyHolder::Repositories(repositories)) => Ok(permit.for_deploy_key(&repositories)),
        None => Err(AuthError::BadCredentials.into()),
    }
}

fn grant(permit: &Permit, repository: &Repository) -> Grant {
    let user = |identity: &Identity| GrantUser {
        id: identity.user_id,
        username: identity.username.clone(),
        full_name: identity.full_name.clone(),
        email: identity.email.clone(),
    };
    Grant {
        user: permit.identity().ok().map(user),
        repository: repository.id,
        operation: permit.operation().to_owned(),
        permission: permit.level(repository),
        issues_enabled: repository.has_issues(),
        is_mirror: repository.is_mirror,
        store: repository.store.clone(),
        epoch: repository.epoch,
        issue_reach: issue_reach(permit),
    }
}

/// Returns where the messages of commits that the operation brings may close and open issues.
fn issue_reach(permit: &Permit) -> IssueReach {
    match OPERATIONS_ON_REFS.contains(&permit.operation()) {
        true => permit.viewer().issue_reach(),
        false => IssueReach::None,
    }
}
