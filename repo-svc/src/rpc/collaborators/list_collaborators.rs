use ferrite_proto::repo::{ListCollaboratorsRequest, ListCollaboratorsResponse};
use tonic::Request;

use super::super::{encode, lists};
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<ListCollaboratorsRequest>,
) -> Result<ListCollaboratorsResponse, RepoError> {
    let request = request.into_inner();
    let repository = permit.repository(&state.repositories, request.repository).await?;
    let page = lists::page(request.page, request.page_size);
    let (rows, total_count) = state.collaborators.list(repository.id(), page).await?;
    let collaborators = rows.into_iter().map(|row| encode::collaborator(row, permit.viewer())).collect();
    Ok(ListCollaboratorsResponse { collaborators, total_count })
}
