use ferrite_proto::git::{GetTagObjectRequest, GetTagObjectResponse};
use tonic::Request;

use super::convert::object_type;
use crate::{
    repo::read,
    rpc::{authorize, encode},
    state::AppState,
    types::rpc_error::RpcError,
};

/// Returns an annotated tag.
pub(super) async fn get_tag_object(
    state: &AppState,
    request: Request<GetTagObjectRequest>,
) -> Result<GetTagObjectResponse, RpcError> {
    let (request, id) = authorize(state, request, |request| request.repository_id).await?;
    let tag = state.pool.run(id, move |repo| read::tag_object(repo, &request.tag_id)).await?;
    Ok(GetTagObjectResponse {
        tag_id: tag.id.to_string(),
        name: tag.name.into_bytes(),
        message: tag.message.into_bytes(),
        tagger: tag.tagger.map(encode::signature),
        object_type: object_type(tag.kind).into(),
        object_id: tag.target.to_string(),
        is_truncated: tag.is_truncated,
    })
}
