//! `ResolveAccess`: the repository, and a grant for one operation on it, for a token, a password, or an SSH key.

use ferrite_kit::auth::{AuthError, Caller};
use ferrite_proto::ServiceRole;
use ferrite_proto::grant::{Credential, Grant, GrantLimits, GrantUser, IssueReach, Reauthorization, Subject};
use ferrite_proto::operation;
use ferrite_proto::repo::{Identity, ResolveAccessRequest, ResolveAccessResponse};
use tonic::Request;

use super::super::encode;
use super::{limits, wiki};
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
    let role = Caller::of(&request).require_service()?;
    let request = request.into_inner();
    let is_git = request.basic.is_some() || request.ssh_fingerprint.is_some();
    // Only the gateway has seen a client prove that it holds a key; others act for users by the users' tokens.
    if is_git && role != ServiceRole::Gateway {
        return Err(AuthError::ServiceNotPermitted { role }.into());
    }
    let mut credential = permit.identity().map_or(Credential::Anonymous, |caller| Credential::Token(caller.token_id));
    // Only git clients authenticate by HTTP Basic.
    if let Some(basic) = &request.basic {
        let identity;
        (identity, credential) = state.credentials.check_basic(basic, permit.client_address()).await?;
        permit = permit.for_git(identity);
    }
    if let Some(fingerprint) = &request.ssh_fingerprint {
        if request.basic.is_some() {
            return Err(RepoError::field("ssh_fingerprint", "invalid", "is for nothing beside it"));
        }
        permit = for_ssh_key(state, permit, fingerprint).await?;
        credential = Credential::Key(fingerprint.clone());
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
    let access = Reauthorization { repository: repository.id, is_wiki: request.is_wiki, is_git, credential };
    // Other grants name no credential, so that more of them are equal and signed once.
    let of_push = (permit.operation() == operation::RECEIVE_PACK).then(|| access.clone());
    let limits = limits::of(state, &permit, &repository).await?;
    let grant = state.grants.sign(Grant { reauthorization: of_push, limits, ..grant(&permit, &repository, stored_id) });
    let reauthorization = Some(access.request(permit.operation().to_owned()));
    let identity = permit.identity().ok().cloned();
    let store = repository.store.clone();
    let repository = Some(encode::repository(repository, permit.viewer()));
    Ok(ResolveAccessResponse { repository, stored_id, grant, identity, reauthorization, store })
}

/// Returns the permit for the holder of an SSH key.
pub(super) async fn for_ssh_key(state: &AppState, permit: Permit, fingerprint: &str) -> Result<Permit, RepoError> {
    require_git_body(&permit, "ssh_fingerprint")?;
    match key_holder(&state.db, fingerprint, state.clock.now_us()).await? {
        Some(KeyHolder::User(identity)) => Ok(permit.for_git(identity)),
        Some(KeyHolder::Repositories(repositories)) => Ok(permit.for_deploy_key(&repositories)),
        None => Err(AuthError::BadCredentials.into()),
    }
}

/// Refuses a field of the request unless the operation is one of git's bodies.
pub(super) fn require_git_body(permit: &Permit, field: &str) -> Result<(), RepoError> {
    match [operation::UPLOAD_PACK, operation::RECEIVE_PACK].contains(&permit.operation()) {
        true => Ok(()),
        false => Err(RepoError::field(field, "invalid", "is for git's bodies")),
    }
}

/// Returns the grant for a repository, or for its wiki if that is stored under `stored_id`.
fn grant(permit: &Permit, repository: &Repository, stored_id: i64) -> Grant {
    Grant {
        user: permit.identity().ok().map(grant_user),
        subject: Subject::Repository,
        repository: stored_id,
        operation: permit.operation().to_owned(),
        permission: permit.level(repository),
        issues_enabled: repository.has_issues(),
        is_mirror: repository.is_mirror,
        store: repository.store.clone(),
        epoch: repository.epoch,
        // Messages of commits to a wiki are about no issues.
        issue_reach: if stored_id == repository.id { issue_reach(permit) } else { IssueReach::None },
        reauthorization: None,
        limits: GrantLimits::default(),
    }
}

/// Returns the user of a grant.
pub(super) fn grant_user(identity: &Identity) -> GrantUser {
    GrantUser {
        id: identity.user_id,
        username: identity.username.clone(),
        full_name: identity.full_name.clone(),
        email: identity.email.clone(),
        token_id: identity.token_id,
    }
}

/// Returns where the messages of commits that the operation brings may close and open issues.
fn issue_reach(permit: &Permit) -> IssueReach {
    match OPERATIONS_ON_REFS.contains(&permit.operation()) {
        true => permit.viewer().issue_reach(),
        false => IssueReach::None,
    }
}
