use ferrite_proto::git::{ListTagsRequest, ListTagsResponse, Tag};
use tonic::Request;

use crate::{
    repo::read,
    rpc::{authorize, decode, encode},
    state::AppState,
    types::rpc_error::RpcError,
};

/// Returns a page of tags.
pub(super) async fn list_tags(
    state: &AppState,
    request: Request<ListTagsRequest>,
) -> Result<ListTagsResponse, RpcError> {
    let (request, id) = authorize(state, request, |request| request.repository_id).await?;
    let page = decode::parse_page(request.page, request.page_size)?;
    let listed = read::tag_refs(&*state.refs.table(id).await?, page);
    let found = state.pool.run(id, move |repo| read::tags(repo, &listed.entries)).await?;
    let tags = found.into_iter().map(|tag| Tag {
        name: tag.name,
        commit: Some(encode::commit(tag.commit)),
        tag_id: tag.tag.map(|id| id.to_string()).unwrap_or_default(),
    });
    Ok(ListTagsResponse { tags: tags.collect(), total_count: encode::total_count(listed.total) })
}
