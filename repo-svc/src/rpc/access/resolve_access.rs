use ferrite_proto::grant::{Grant, GrantUser, LIFETIME};
use ferrite_proto::repo::{Identity, ResolveAccessRequest, ResolveAccessResponse};
use tonic::Request;

use super::super::encode;
use crate::access::{Acting, Permit};
use crate::core::Core;
use crate::store::Repository;
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
    let repository = permit.repository(core, request.repository).await?;
    let grant = core.signer.sign(grant(&permit, &repository), core.clock.now_secs(), LIFETIME);
    let identity = permit.identity().ok().cloned();
    Ok(ResolveAccessResponse { repository: Some(encode::repository(repository, permit.viewer())), grant, identity })
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
