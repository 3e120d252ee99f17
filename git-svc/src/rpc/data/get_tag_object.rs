use ferrite_kit::auth::Caller;
use ferrite_proto::{
    git::{GetTagObjectRequest, GetTagObjectResponse},
    id::RepositoryId,
};
use tonic::Request;

use super::convert::object_type;
use crate::{repo::read, rpc::encode, state::AppState, types::rpc_error::RpcError};

/// Returns an annotated tag.
pub(super) async fn get_tag_object(
    state: &AppState,
    request: Request<GetTagObjectRequest>,
) -> Result<GetTagObjectResponse, RpcError> {
    let caller = Caller::of(&request);
    let request = request.into_inner();
    state.authorize(&caller, request.repository_id).await?;
    let id = request.tag_id;
    let tag = state.pool.run(RepositoryId(request.repository_id), move |repo| read::tag_object(repo, &id)).await?;
    Ok(GetTagObjectResponse {
        tag_id: tag.id.to_string(),
        name: tag.name,
        message: tag.message,
        tagger: tag.tagger.map(encode::signature),
        object_type: object_type(tag.kind).into(),
        object_id: tag.target.to_string(),
        is_truncated: tag.is_truncated,
    })
}
