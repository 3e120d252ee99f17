use ferrite_kit::auth::Caller;
use ferrite_proto::grant::{Grant, GrantUser, LIFETIME};
use ferrite_proto::repo::{Identity, ResolveAccessRequest, ResolveAccessResponse};
use tonic::Request;

use super::{encode, lookup};
use crate::access::Viewer;
use crate::core::Core;
use crate::credentials::Origin;
use crate::store::Repository;
use crate::{RepoError, credentials};

pub(super) async fn handle(
    core: &Core,
    request: Request<ResolveAccessRequest>,
) -> Result<ResolveAccessResponse, RepoError> {
    let caller = Caller::of(&request);
    // A grant outlives the token it was given for by a minute: it is not for the users themselves.
    caller.require_service()?;
    let origin = Origin::of(&request);
    let request = request.into_inner();
    // Only git sends a name and a password, or a token in the place of one of them.
    let (viewer, identity) = match &request.basic {
        Some(credential) => {
            let identity = credentials::basic(core, credential, &origin).await?;
            (Viewer::over_git(&identity), Some(identity))
        }
        None => (Viewer::of(caller.identity.as_ref()), caller.identity),
    };
    let repository = lookup::visible(core, request.repository, viewer).await?;
    let grant = core.signer.sign(grant(&repository, viewer, identity.as_ref()), core.clock.now_secs(), LIFETIME);
    Ok(ResolveAccessResponse { repository: Some(encode::repository(repository, viewer)), grant, identity })
}

fn grant(repository: &Repository, viewer: Viewer, identity: Option<&Identity>) -> Grant {
    Grant {
        user: identity.map(|identity| GrantUser {
            id: identity.user_id,
            username: identity.username.clone(),
            full_name: identity.full_name.clone(),
            email: identity.email.clone(),
        }),
        repository: repository.id,
        permission: repository.level(viewer),
        issues_enabled: repository.is_issues_enabled,
        is_mirror: repository.is_mirror,
        store: repository.store.clone(),
        epoch: repository.epoch,
    }
}
