use ferrite_proto::repo::{GetCollaboratorRequest, GetCollaboratorResponse};
use tonic::Request;

use super::super::lookup;
use super::{USER, encoded};
use crate::RepoError;
use crate::access::Permit;
use crate::core::Core;

pub(super) async fn handle(
    core: &Core,
    permit: Permit,
    request: Request<GetCollaboratorRequest>,
) -> Result<GetCollaboratorResponse, RepoError> {
    let request = request.into_inner();
    let repository = permit.repository(core, request.repository).await?;
    let account = match lookup::account(core, &request.username).await {
        Err(RepoError::UserNotFound) => return Err(RepoError::field(USER, "unknown", "does not exist")),
        account => account?,
    };
    let found = core.collaborators.find(repository.id(), account.id).await?;
    let found = found.ok_or(RepoError::CollaboratorNotFound)?;
    Ok(GetCollaboratorResponse { collaborator: Some(encoded(found, permit.viewer())) })
}
