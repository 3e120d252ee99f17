use ferrite_kit::timestamp;
use ferrite_proto::repo::{GetTransferRequest, GetTransferResponse, Transfer};
use tonic::Request;

use super::super::encode;
use super::pending;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<GetTransferRequest>,
) -> Result<GetTransferResponse, RepoError> {
    let found = pending::find(state, &permit, request.into_inner().repository).await?;
    let (new_owner, user) = pending::accounts(state, &found.row).await?;
    let transfer = Transfer {
        repository: Some(encode::repository(found.repository, permit.viewer())),
        new_owner: Some(encode::user(new_owner, permit.viewer())),
        user: Some(encode::user(user, permit.viewer())),
        create_time: Some(timestamp(found.row.created_us)),
    };
    Ok(GetTransferResponse { transfer: Some(transfer) })
}
