use ferrite_proto::repo::{GetOrganizationRequest, GetOrganizationResponse};
use tonic::Request;

use super::super::{encode, lookup};
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<GetOrganizationRequest>,
) -> Result<GetOrganizationResponse, RepoError> {
    let found = lookup::organization(state, &request.get_ref().organization, permit.viewer()).await?;
    Ok(GetOrganizationResponse { organization: Some(encode::organization(found)) })
}
