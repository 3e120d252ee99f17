use ferrite_proto::repo::{ListRepositoriesRequest, ListRepositoriesResponse};
use tonic::Request;

use super::super::{lists, lookup, parents};
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<ListRepositoriesRequest>,
) -> Result<ListRepositoriesResponse, RepoError> {
    let request = request.into_inner();
    let owner = match request.owner.as_str() {
        "" => None,
        name if request.is_organization => Some(lookup::organization(state, name, permit.viewer()).await?.id()),
        name => {
            let account = lookup::account(state, name).await?.id;
            // Of itself the caller lists all that it can reach.
            Some(account).filter(|account| permit.user().ok() != Some(*account))
        }
    };
    let page = lists::page(request.page, request.page_size);
    let (rows, total_count) = state.repositories.list(owner, permit.viewer(), page).await?;
    let repositories = parents::encode_all(&state.repositories, rows, permit.viewer()).await?;
    Ok(ListRepositoriesResponse { repositories, total_count })
}
