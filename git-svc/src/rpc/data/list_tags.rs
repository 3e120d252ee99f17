use ferrite_kit::auth::Caller;
use ferrite_proto::{
    git::{ListTagsRequest, ListTagsResponse, Tag},
    id::RepositoryId,
};
use tonic::Request;

use super::encode;
use crate::{
    app::App,
    failure::Failure,
    read::{self, Watch, watch::READ_TIME},
};

/// Returns a page of tags.
pub(super) async fn list_tags(app: &App, request: Request<ListTagsRequest>) -> Result<ListTagsResponse, Failure> {
    let caller = Caller::of(&request);
    let request = request.into_inner();
    app.authorize(&caller, request.repository_id).await?;
    let page = super::page(request.page, request.page_size)?;
    let (watch, _waiting) = Watch::start(READ_TIME);
    let job = move |repo: &git2::Repository| read::tags(repo, page, &watch);
    let found = app.pool.run(RepositoryId(request.repository_id), job).await?;
    let tags = found.tags.into_iter().map(|tag| Tag {
        name: tag.name,
        commit: Some(encode::commit(tag.commit)),
        tag_id: tag.tag.map(|id| id.to_string()).unwrap_or_default(),
    });
    Ok(ListTagsResponse { tags: tags.collect(), total_count: super::count(found.total) })
}
