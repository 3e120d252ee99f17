use std::collections::HashMap;

use ferrite_kit::page::Page;
use ferrite_proto::Permission;
use ferrite_proto::repo::{ListTransfersRequest, ListTransfersResponse};
use tonic::Request;

use super::pending;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::AccountQuery;

const MAX_PAGE_SIZE: i32 = 100;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<ListTransfersRequest>,
) -> Result<ListTransfersResponse, RepoError> {
    let request = request.into_inner();
    let page = Page::nearest(request.page, request.page_size, MAX_PAGE_SIZE);
    let viewer = permit.viewer();
    let (listed, total_count) =
        state.transfers.list(permit.user()?, viewer.only_repositories(), state.clock.now_us(), page).await?;
    let ids: Vec<_> = listed.iter().map(|one| one.row.repository().0).collect();
    let repositories = state.repositories.find_many(&ids, viewer).await?;
    let mut repositories: HashMap<_, _> = repositories.into_iter().map(|row| (row.id, row)).collect();
    let ids = listed.iter().flat_map(|one| [one.row.new_owner().0, one.row.user().0]).collect();
    let accounts = state.accounts.find_many(AccountQuery { ids, ..AccountQuery::default() }).await?;
    let transfers = listed.into_iter().filter_map(|one| {
        let repository = repositories.remove(&one.row.repository().0)?;
        // The owner of a fork of a hidden repository does not see it.
        if !one.is_received() && repository.level(viewer) < Permission::Owner {
            return None;
        }
        let accounts = pending::accounts_of(&one.row, &accounts)?;
        Some(pending::encode(state, repository, &one.row, accounts, viewer))
    });
    Ok(ListTransfersResponse { transfers: transfers.collect(), total_count })
}
