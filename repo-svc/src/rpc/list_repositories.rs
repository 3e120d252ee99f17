use ferrite_kit::auth::Caller;
use ferrite_kit::page::Page;
use ferrite_proto::repo::{ListRepositoriesRequest, ListRepositoriesResponse};
use tonic::Request;

use super::{encode, lookup};
use crate::RepoError;
use crate::access::Viewer;
use crate::core::Core;

const MAX_PAGE_SIZE: i32 = 1_000;

pub(super) async fn handle(
    core: &Core,
    request: Request<ListRepositoriesRequest>,
) -> Result<ListRepositoriesResponse, RepoError> {
    let caller = Caller::of(&request);
    let viewer = Viewer::of(Some(caller.require_user()?));
    let request = request.into_inner();
    let owner = match request.owner.as_str() {
        "" => None,
        name => Some(lookup::user(core, name).await?.id),
    };
    let page = Page::nearest(request.page, request.page_size, MAX_PAGE_SIZE);
    let (rows, total_count) = core.repositories.list(owner, viewer, page).await?;
    let repositories = rows.into_iter().map(|row| encode::repository(row, viewer)).collect();
    Ok(ListRepositoriesResponse { repositories, total_count })
}
