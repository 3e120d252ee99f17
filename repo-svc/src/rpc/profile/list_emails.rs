use ferrite_proto::repo::{ListEmailsRequest, ListEmailsResponse};
use tonic::Request;

use super::super::{encode, lists};
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<ListEmailsRequest>,
) -> Result<ListEmailsResponse, RepoError> {
    let request = request.into_inner();
    let page = lists::page(request.page, request.page_size);
    let (rows, total_count) = state.profiles.emails(permit.user()?, page).await?;
    Ok(ListEmailsResponse { emails: rows.into_iter().map(encode::email).collect(), total_count })
}
