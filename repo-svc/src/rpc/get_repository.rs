use ferrite_kit::auth::Caller;
use ferrite_proto::repo::{GetRepositoryRequest, GetRepositoryResponse};
use tonic::Request;

use super::{encode, lookup};
use crate::RepoError;
use crate::access::Viewer;
use crate::core::Core;

pub(super) async fn handle(
    core: &Core,
    request: Request<GetRepositoryRequest>,
) -> Result<GetRepositoryResponse, RepoError> {
    let viewer = Viewer::of(Caller::of(&request).identity.as_ref());
    let repository = lookup::visible(core, request.into_inner().repository, viewer).await?;
    Ok(GetRepositoryResponse { repository: Some(encode::repository(repository, viewer)) })
}
