//! `ForkRepository`: a copy of a repository, which remembers it as its parent.

use std::sync::Arc;

use ferrite_kit::idempotency::IdempotencyKey;
use ferrite_proto::id::UserId;
use ferrite_proto::repo::{ForkRepositoryRequest, ForkRepositoryResponse};
use tonic::Request;

use super::super::lookup::Owner;
use super::creation::Creation;
use crate::access::RequiredRole;
use crate::error::RepoError;
use crate::model::{Description, RepoName};
use crate::rpc::permit::Permit;
use crate::rpc::repeat;
use crate::state::AppState;
use crate::store::{NewRepository, Repository};

pub(super) async fn handle(
    state: &Arc<AppState>,
    permit: Permit,
    request: Request<ForkRepositoryRequest>,
) -> Result<ForkRepositoryResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "ForkRepository")?;
    let (caller, repeated) = (permit.clone(), request.get_ref().clone());
    let access = async {
        repeat::repository(state, &caller, repeated.repository).await?;
        owner(state, &caller, &repeated.organization).await.map(drop)
    };
    let reader = &caller;
    let rebuild = |id: i64| async move {
        let repository = Some(repeat::read_repository(state, reader, id).await?);
        Ok(ForkRepositoryResponse { repository })
    };
    let work = async {
        let ForkRepositoryRequest { repository, organization, name } = request.into_inner();
        let parent = permit.repository(&state.repositories, repository).await?;
        let new = new_repository(&parent, &name, permit.user()?)?;
        let owner = owner(state, &permit, &organization).await?;
        state.creation_limit.count(permit.identity()?).await?;
        let respond = |repository| ForkRepositoryResponse { repository: Some(repository) };
        let creation = Creation { owner, new, first_commit: None, parent: Some(parent), key: key.clone(), respond };
        // A task of its own: a copy that takes long is finished although the caller has left.
        let task = state.life.spawn_for_request("fork repository", creation.run(Arc::clone(state), permit));
        task.await.unwrap_or(Err(RepoError::Interrupted))
    };
    repeat::once_or_rebuild(&state.db, key.as_ref(), access, rebuild, work).await
}

/// Returns the fork to make: with the description and the visibility of its parent, and with its name if `name` is empty.
fn new_repository(parent: &Repository, name: &str, creator: UserId) -> Result<NewRepository, RepoError> {
    Ok(NewRepository {
        creator,
        name: RepoName::parse(if name.is_empty() { &parent.name } else { name }, "name")?,
        description: Description::of_parent(&parent.description),
        is_private: parent.is_private,
        default_branch: parent.default_branch.clone(),
        store: parent.store.clone(),
    })
}

/// Returns the account that will own the fork: the caller, or an organization that it owns.
async fn owner(state: &AppState, permit: &Permit, organization: &str) -> Result<Owner, RepoError> {
    if organization.is_empty() {
        return Ok(Owner::caller(permit)?);
    }
    let found = state.organizations.find(organization, permit.viewer().user()).await?;
    let found = found.ok_or_else(|| RepoError::field("organization", "unknown", "does not exist"))?;
    permit.require_role(RequiredRole::Owner, found.role())?;
    Ok(Owner { id: found.id(), name: found.name })
}
