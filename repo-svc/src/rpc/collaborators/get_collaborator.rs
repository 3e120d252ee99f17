use ferrite_proto::repo::{GetCollaboratorRequest, GetCollaboratorResponse};
use tonic::Request;

use super::super::{encode, lookup};
use super::level_rule::USER_FIELD;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<GetCollaboratorRequest>,
) -> Result<GetCollaboratorResponse, RepoError> {
    let request = request.into_inner();
    let repository = permit.repository(&state.repositories, request.repository).await?;
    let account = match lookup::account(state, &request.username).await {
        Err(RepoError::UserNotFound) => return Err(RepoError::field(USER_FIELD, "unknown", "does not exist")),
        account => account?,
    };
    let found = state.collaborators.find(repository.id(), account.id).await?;
    let found = found.ok_or(RepoError::CollaboratorNotFound)?;
    Ok(GetCollaboratorResponse { collaborator: Some(encode::collaborator(found, permit.viewer())) })
}
