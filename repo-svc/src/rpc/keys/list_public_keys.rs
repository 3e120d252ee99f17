use ferrite_proto::repo::{ListPublicKeysRequest, ListPublicKeysResponse};
use tonic::Request;

use super::super::{encode, lists, lookup};
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<ListPublicKeysRequest>,
) -> Result<ListPublicKeysResponse, RepoError> {
    let request = request.into_inner();
    let user = lookup::user_or_caller(state, &permit, &request.username).await?;
    let page = lists::page(request.page, request.page_size);
    let (rows, total_count) = state.public_keys.list(user, page).await?;
    let mut keys: Vec<_> = rows.into_iter().map(encode::public_key).collect();
    if user != permit.user()? {
        // Names of tokens are their owner's.
        keys.iter_mut().for_each(|key| key.token = None);
    }
    Ok(ListPublicKeysResponse { keys, total_count })
}
