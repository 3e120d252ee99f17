use ferrite_api_types::convert::require;
use ferrite_api_types::{Repository, Time, User};
use ferrite_proto::operation;
use ferrite_proto::repo::{
    self, AcceptTransferRequest, CancelTransferRequest, GetTransferRequest, ListTransfersRequest,
    RejectTransferRequest, StartTransferRequest,
};
use serde::Serialize;

use crate::api::access::after_refusal;
use crate::api::call::{ApiCall, Authenticated, operations};
use crate::http::body::NoBody;
use crate::http::error::{ApiError, ApiResult};
use crate::http::page::ExtensionList;
use crate::http::path::RepoPath;
use crate::http::request::{RequestBody, Required, Text, fields};
use crate::http::response::{Accepted, Either, Json, List, NoContent};

operations! {
    "/api/v1/repos/{owner}/{repo}/transfer" =>
        get get as operation::GET_TRANSFER,
        post start as operation::START_TRANSFER,
        delete cancel as operation::CANCEL_TRANSFER;
    "/api/v1/repos/{owner}/{repo}/transfer/accept" => post accept as operation::ACCEPT_TRANSFER;
    "/api/v1/repos/{owner}/{repo}/transfer/reject" => post reject as operation::REJECT_TRANSFER;
    "/api/v1/user/transfers" => get list as operation::LIST_TRANSFERS;
}

ferrite_api_types::shape! {
    /// A pending transfer of a repository, which the new owner has to accept.
    #[derive(Debug, Serialize)]
    struct Transfer {
        repository: Repository,
        /// The user who started it.
        doer: User,
        /// The new owner.
        recipient: User,
        created_at: Time,
        /// The time when the transfer expires.
        expires_at: Time,
    }
}

impl Transfer {
    fn new(transfer: repo::Transfer, call: &ApiCall) -> Result<Self, ApiError> {
        Ok(Self {
            repository: call.repository(transfer.repository)?,
            doer: call.user(require(transfer.user, "user")?),
            recipient: call.user(require(transfer.new_owner, "new_owner")?),
            created_at: Time::new(transfer.create_time, "create_time")?,
            expires_at: Time::new(transfer.expire_time, "expire_time")?,
        })
    }
}

fields! {
    /// A new transfer.
    struct NewTransfer {
        new_owner: Required<Text> = "acme",
    }
}

async fn get(Authenticated(call): Authenticated, path: RepoPath) -> ApiResult<Json<Transfer>> {
    let request = call.request(GetTransferRequest { repository: Some(path.repository()) });
    let response = call.clients.transfers().get_transfer(request).await?.into_inner();
    Ok(Json(Transfer::new(require(response.transfer, "transfer")?, &call)?))
}

async fn list(Authenticated(call): Authenticated, query: ExtensionList) -> ApiResult<List<Transfer>> {
    let request = call.request(ListTransfersRequest { page: query.page.number, page_size: query.page.size });
    let response = call.clients.transfers().list_transfers(request).await?.into_inner();
    let transfers = response.transfers.into_iter().map(|transfer| Transfer::new(transfer, &call));
    Ok(query.list(transfers.collect::<Result<Vec<_>, _>>()?, response.total_count, &call.links))
}

async fn start(
    Authenticated(call): Authenticated,
    path: RepoPath,
    body: RequestBody<NewTransfer>,
) -> ApiResult<Accepted<Repository>> {
    let (repository, NewTransfer { new_owner }, _permit) =
        call.repository_body(&path, operation::START_TRANSFER, body).await?;
    let request = call.request(StartTransferRequest { repository: Some(repository), new_owner });
    let response = call.clients.transfers().start_transfer(request).await?.into_inner();
    Ok(Accepted(call.repository(response.repository)?))
}

async fn cancel(Authenticated(call): Authenticated, path: RepoPath) -> ApiResult<NoContent> {
    let request = call.request(CancelTransferRequest { repository: Some(path.repository()) });
    call.clients.transfers().cancel_transfer(request).await?;
    Ok(NoContent)
}

/// Returns the error of a refused body, after those about the caller and the repository. The rules of
/// these two operations name no repository, so `CheckAccess` would not look at it.
async fn require_body(call: &ApiCall, path: &RepoPath, body: &NoBody) -> Result<(), ApiError> {
    let request = GetTransferRequest { repository: Some(path.repository()) };
    let check = async { call.clients.transfers().get_transfer(call.request(request)).await };
    after_refusal(check, body.read()).await
}

async fn accept(Authenticated(call): Authenticated, path: RepoPath, body: NoBody) -> ApiResult<Accepted<Repository>> {
    require_body(&call, &path, &body).await?;
    let request = call.request(AcceptTransferRequest { repository: Some(path.repository()) });
    let response = call.clients.transfers().accept_transfer(request).await?.into_inner();
    Ok(Accepted(call.repository(response.repository)?))
}

/// Responds with 204 instead of the repository if the caller can no longer see it.
async fn reject(
    Authenticated(call): Authenticated,
    path: RepoPath,
    body: NoBody,
) -> ApiResult<Either<Json<Repository>, NoContent>> {
    require_body(&call, &path, &body).await?;
    let request = call.request(RejectTransferRequest { repository: Some(path.repository()) });
    let response = call.clients.transfers().reject_transfer(request).await?.into_inner();
    match response.repository {
        Some(repository) => Ok(Either::First(Json(call.repository(Some(repository))?))),
        None => Ok(Either::Second(NoContent)),
    }
}
