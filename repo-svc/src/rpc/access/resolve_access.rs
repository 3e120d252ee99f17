//! `ResolveAccess`: the repository, and a grant for one operation on it, for a token, a password, or an SSH key.

use ferrite_kit::auth::AuthError;
use ferrite_proto::grant::{Grant, GrantUser, IssueReach};
use ferrite_proto::operation;
use ferrite_proto::repo::{Identity, ResolveAccessRequest, ResolveAccessResponse};
use tonic::Request;

use super::super::encode;
use super::wiki;
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
    if request.is_wiki {
        require_git_body(&permit, "is_wiki")?;
        permit = permit.for_wiki();
    }
    let repository = match request.follow_redirect {
        true => permit.repository_by_any_name(&state.repositories, request.repository).await?,
        false => permit.repository(&state.repositories, request.repository).await?,
    };
    let stored_id = match request.is_wiki {
        true => wiki::stored_id(state, &permit, &repository).await?,
        false => repository.id,
    };
    let grant = state.grants.sign(grant(&permit, &repository, stored_id));
    let identity = permit.identity().ok().cloned();
    let repository = Some(encode::repository(repository, permit.viewer()));
    Ok(ResolveAccessResponse { repository, stored_id, grant, identity })
}

/// Returns the permit for the holder of an SSH key.
async fn for_ssh_key(state: &AppState, permit: Permit, fingerprint: &str, is_basic: bool) -> Result<Permit, RepoError> {
    if is_basic {
        return Err(RepoError::field("ssh_fingerprint", "invalid", "is for nothing beside it"));
    }
    require_git_body(&permit, "ssh_fingerprint")?;
    match key_holder(&state.db, fingerprint).await? {
        Some(KeyHolder::User(identity)) => Ok(permit.for_git(identity)),
        Some(KeyHolder::Repositories(repositories)) => Ok(permit.for_deploy_key(&repositories)),
        None => Err(AuthError::BadCredentials.into()),
    }
}

/// Refuses a field of the request unless the operation is one of git's bodies.
fn require_git_body(permit: &Permit, field: &str) -> Result<(), RepoError> {
    match [operation::UPLOAD_PACK, operation::RECEIVE_PACK].contains(&permit.operation()) {
        true => Ok(()),
        false => Err(RepoError::field(field, "invalid", "is for git's bodies")),
    }
}

/// Returns the grant for a repository, or for its wiki if that is stored under `stored_id`.
fn grant(permit: &Permit, repository: &Repository, stored_id: i64) -> Grant {
    let user = |identity: &Identity| GrantUser {
        id: identity.user_id,
        username: identity.username.clone(),
        full_name: identity.full_name.clone(),
        email: identity.email.clone(),
    };
    Grant {
        user: permit.identity().ok().map(user),
        repository: stored_id,
        operation: permit.operation().to_owned(),
        permission: permit.level(repository),
        issues_enabled: repository.has_issues(),
        is_mirror: repository.is_mirror,
        store: repository.store.clone(),
        epoch: repository.epoch,
        // Messages of commits to a wiki are about no issues.
        issue_reach: if stored_id == repository.id { issue_reach(permit) } else { IssueReach::None },
    }
}

/// Returns where the messages of commits that the operation brings may close and open issues.
fn issue_reach(permit: &Permit) -> IssueReach {
    match OPERATIONS_ON_REFS.contains(&permit.operation()) {
        true => permit.viewer().issue_reach(),
        false => IssueReach::None,
    }
}
