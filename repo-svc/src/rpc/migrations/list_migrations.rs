use ferrite_kit::page::Page;
use ferrite_proto::repo::{ListMigrationsRequest, ListMigrationsResponse};
use tonic::Request;

use super::encode;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

const MAX_PAGE_SIZE: i32 = 100;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<ListMigrationsRequest>,
) -> Result<ListMigrationsResponse, RepoError> {
    let request = request.into_inner();
    let page = Page::nearest(request.page, request.page_size, MAX_PAGE_SIZE);
    let token = permit.identity()?.token_id;
    let only = permit.viewer().only_repositories().map(|repositories| (repositories, token));
    let (rows, total_count) = state.migrations.list(permit.user()?, only, page).await?;
    let migrations = rows.into_iter().map(|row| encode::migration(row, None)).collect();
    Ok(ListMigrationsResponse { migrations, total_count })
}
