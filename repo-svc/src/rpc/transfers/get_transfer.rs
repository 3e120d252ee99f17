use ferrite_proto::repo::{GetTransferRequest, GetTransferResponse};
use tonic::Request;

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
    let accounts = pending::accounts(state, &found.row).await?;
    let transfer = pending::encode(state, found.repository, &found.row, accounts, permit.viewer());
    Ok(GetTransferResponse { transfer: Some(transfer) })
}
