use ferrite_proto::repo::{GetOrganizationRequest, GetOrganizationResponse};
use tonic::Request;

use super::super::lookup;
use super::encode;
use crate::RepoError;
use crate::access::Permit;
use crate::core::Core;

pub(super) async fn handle(
    core: &Core,
    permit: Permit,
    request: Request<GetOrganizationRequest>,
) -> Result<GetOrganizationResponse, RepoError> {
    let found = lookup::organization(core, &request.get_ref().organization, permit.viewer()).await?;
    Ok(GetOrganizationResponse { organization: Some(encode(found)) })
}
