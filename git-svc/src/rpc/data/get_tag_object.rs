use ferrite_kit::auth::Caller;
use ferrite_proto::{
    git::{GetTagObjectRequest, GetTagObjectResponse},
    id::RepositoryId,
};
use tonic::Request;

use super::{encode, object_type};
use crate::{repo::read, state::AppState, types::rpc_error::RpcError};

/// Returns an annotated tag.
pub(super) async fn get_tag_object(
    app: &AppState,
    request: Request<GetTagObjectRequest>,
) -> Result<GetTagObjectResponse, RpcError> {
    let caller = Caller::of(&request);
    let request = request.into_inner();
    app.authorize(&caller, request.repository_id).await?;
    let id = request.tag_id;
    let tag = app.pool.run(RepositoryId(request.repository_id), move |repo| read::tag_object(repo, &id)).await?;
    Ok(GetTagObjectResponse {
        tag_id: tag.id.to_string(),
        name: tag.name,
        message: tag.message,
        tagger: tag.tagger.map(encode::signature),
        object_type: object_type(tag.kind).into(),
        object_id: tag.target.to_string(),
    })
}
