//! Transfers of repositories to other owners.

use ferrite_proto::operation;
use ferrite_proto::repo::{
    self, AcceptTransferRequest, CancelTransferRequest, GetTransferRequest, ListTransfersRequest,
    RejectTransferRequest, StartTransferRequest,
};

use crate::api::call::{ApiCall, Authenticated, routes};
use crate::dto::{Transfer, require};
use crate::http::body::JsonBody;
use crate::http::error::{ApiError, ApiResult};
use crate::http::fields::FieldReader;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::RepoPath;
use crate::http::query::Query;
use ferrite_api_types::convert::time;

routes! {
    "/api/v1/repos/{owner}/{repo}/transfer" =>
        get get as operation::GET_TRANSFER,
        post start as operation::START_TRANSFER,
        delete cancel as operation::CANCEL_TRANSFER;
    "/api/v1/repos/{owner}/{repo}/transfer/accept" => post accept as operation::ACCEPT_TRANSFER;
    "/api/v1/repos/{owner}/{repo}/transfer/reject" => post reject as operation::REJECT_TRANSFER;
    "/api/v1/user/transfers" => get list as operation::LIST_TRANSFERS;
}

async fn get(Authenticated(call): Authenticated, path: RepoPath) -> ApiResult {
    let request = call.request(GetTransferRequest { repository: Some(path.repository()) });
    let response = call.clients.transfers().get_transfer(request).await?.into_inner();
    Ok(json::ok(encode(&call, require(response.transfer, "transfer")?)?))
}

async fn list(Authenticated(call): Authenticated, query: Query) -> ApiResult {
    let page = query.page(PageLimits::EXTENSION_LIST);
    let request = call.request(ListTransfersRequest { page: page.number, page_size: page.size });
    let response = call.clients.transfers().list_transfers(request).await?.into_inner();
    let transfers =
        response.transfers.into_iter().map(|transfer| encode(&call, transfer)).collect::<Result<Vec<_>, _>>()?;
    Ok(json::page(transfers, query.headers(page, response.total_count, &call.links)))
}

fn encode(call: &ApiCall, transfer: repo::Transfer) -> Result<Transfer, ApiError> {
    Ok(Transfer {
        repository: call.repository(transfer.repository)?,
        doer: call.user(require(transfer.user, "user")?),
        recipient: call.user(require(transfer.new_owner, "new_owner")?),
        created_at: time(transfer.create_time, "create_time")?,
        expires_at: time(transfer.expire_time, "expire_time")?,
    })
}

async fn start(Authenticated(call): Authenticated, path: RepoPath, body: JsonBody) -> ApiResult {
    let new_owner = |fields: &mut FieldReader| fields.required_non_empty("new_owner");
    let (repository, new_owner) =
        call.decode_repository_body(&path, operation::START_TRANSFER, body, new_owner).await?;
    let request = call.request(StartTransferRequest { repository: Some(repository), new_owner });
    let response = call.clients.transfers().start_transfer(request).await?.into_inner();
    Ok(json::accepted(call.repository(response.repository)?))
}

async fn cancel(Authenticated(call): Authenticated, path: RepoPath) -> ApiResult {
    let request = call.request(CancelTransferRequest { repository: Some(path.repository()) });
    call.clients.transfers().cancel_transfer(request).await?;
    Ok(json::no_content())
}

async fn accept(Authenticated(call): Authenticated, path: RepoPath) -> ApiResult {
    let request = call.request(AcceptTransferRequest { repository: Some(path.repository()) });
    let response = call.clients.transfers().accept_transfer(request).await?.into_inner();
    Ok(json::accepted(call.repository(response.repository)?))
}

/// Responds with 204 instead of the repository if the caller sees it no longer.
async fn reject(Authenticated(call): Authenticated, path: RepoPath) -> ApiResult {
    let request = call.request(RejectTransferRequest { repository: Some(path.repository()) });
    let response = call.clients.transfers().reject_transfer(request).await?.into_inner();
    match response.repository {
        Some(repository) => Ok(json::ok(call.repository(Some(repository))?)),
        None => Ok(json::no_content()),
    }
}
