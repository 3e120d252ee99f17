use ferrite_kit::auth::AuthError;
use ferrite_proto::grant::{Grant, GrantUser};
use ferrite_proto::operation;
use ferrite_proto::repo::{Identity, ResolveAccessRequest, ResolveAccessResponse};
use tonic::Request;

use super::super::encode;
use crate::access::{Acting, Permit};
use crate::core::Core;
use crate::store::{KeyHolder, Repository, key_holder};
use crate::{RepoError, credentials};

/// Only for Ferrite's own processes: a grant outlives the token it was given for by a minute, so it is not for the users themselves.
pub(super) async fn handle(
    core: &Core,
    _: Permit,
    request: Request<ResolveAccessRequest>,
) -> Result<ResolveAccessResponse, RepoError> {
    let mut permit = Permit::ahead(&request, &request.get_ref().operation, Acting::Itself)?;
    let request = request.into_inner();
    // Only git sends a name and a password, or a token in the place of one of them.
    if let Some(credential) = &request.basic {
        let identity = credentials::basic(core, credential, permit.origin()).await?;
        permit = permit.over_git(identity);
    }
    if let Some(fingerprint) = &request.ssh_fingerprint {
        permit = over_ssh(core, permit, fingerprint, request.basic.is_some()).await?;
    }
    let repository = permit.repository(core, request.repository).await?;
    let grant = core.grants.sign(grant(&permit, &repository));
    let identity = permit.identity().ok().cloned();
    Ok(ResolveAccessResponse { repository: Some(encode::repository(repository, permit.viewer())), grant, identity })
}

/// The permit of the holder of a key.
async fn over_ssh(core: &Core, permit: Permit, fingerprint: &str, is_basic: bool) -> Result<Permit, RepoError> {
    if is_basic || ![operation::UPLOAD_PACK, operation::RECEIVE_PACK].contains(&permit.operation()) {
        return Err(RepoError::field("ssh_fingerprint", "invalid", "is for git's bodies, and for nothing beside it"));
    }
    match key_holder(&core.db, fingerprint).await? {
        Some(KeyHolder::User(identity)) => Ok(permit.over_git(identity)),
        Some(KeyHolder::Repositories(repositories)) => Ok(permit.of_deploy_key(&repositories)),
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
        issues_enabled: repository.is_issues_enabled,
        is_mirror: repository.is_mirror,
        store: repository.store.clone(),
        epoch: repository.epoch,
    }
}
