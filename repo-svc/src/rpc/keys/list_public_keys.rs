use ferrite_kit::page::Page;
use ferrite_proto::repo::{ListPublicKeysRequest, ListPublicKeysResponse};
use tonic::Request;

use super::super::{encode, lookup};
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

const MAX_PAGE_SIZE: i32 = 1_000;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<ListPublicKeysRequest>,
) -> Result<ListPublicKeysResponse, RepoError> {
    let request = request.into_inner();
    let user = match request.username.as_str() {
        "" => permit.user()?,
        name => lookup::user(state, name).await?.id,
    };
    let page = Page::nearest(request.page, request.page_size, MAX_PAGE_SIZE);
    let (rows, total_count) = state.public_keys.list(user, page).await?;
    let mut keys: Vec<_> = rows.into_iter().map(encode::public_key).collect();
    if user != permit.user()? {
        // Names of tokens are their owner's.
        keys.iter_mut().for_each(|key| key.token = None);
    }
    Ok(ListPublicKeysResponse { keys, total_count })
}
