//! Transfers of repositories to other owners.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ferrite_proto::repo::{
    AcceptTransferRequest, CancelTransferRequest, GetTransferRequest, RejectTransferRequest, StartTransferRequest,
};

use super::access::PermissionCheck;
use super::operation;
use super::state::ApiState;
use crate::auth::Authenticated;
use crate::dto::{Transfer, require};
use crate::http::body::JsonBody;
use crate::http::error::ApiError;
use crate::http::fields::FieldReader;
use crate::http::json;
use crate::http::path::RepoPath;
use crate::http::routes::routes;
use ferrite_rest::convert::time;

routes! { ApiState:
    "/api/v1/repos/{owner}/{repo}/transfer" =>
        get get as operation::GET_TRANSFER,
        post start as operation::START_TRANSFER,
        delete cancel as operation::CANCEL_TRANSFER;
    "/api/v1/repos/{owner}/{repo}/transfer/accept" => post accept as operation::ACCEPT_TRANSFER;
    "/api/v1/repos/{owner}/{repo}/transfer/reject" => post reject as operation::REJECT_TRANSFER;
}

async fn get(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
) -> Result<Response, ApiError> {
    let request = context.request(GetTransferRequest { repository: Some(path.repository()) });
    let answer = api.clients.transfers().get_transfer(request).await?.into_inner();
    let transfer = require(answer.transfer, "transfer")?;
    Ok(json::ok(Transfer {
        repository: api.repository(&context, transfer.repository)?,
        doer: api.user(&context, require(transfer.user, "user")?),
        recipient: api.user(&context, require(transfer.new_owner, "new_owner")?),
        created_at: time(transfer.create_time, "create_time")?,
    }))
}

async fn start(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let check = PermissionCheck::of(operation::START_TRANSFER).on_repository(path.repository());
    let new_owner = |fields: &mut FieldReader| fields.required_non_empty("new_owner");
    let new_owner = api.decode_body(&context, check, body, new_owner).await?;
    let request = context.request(StartTransferRequest { repository: Some(path.repository()), new_owner });
    let answer = api.clients.transfers().start_transfer(request).await?.into_inner();
    Ok(json::accepted(api.repository(&context, answer.repository)?))
}

async fn cancel(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
) -> Result<Response, ApiError> {
    let request = context.request(CancelTransferRequest { repository: Some(path.repository()) });
    api.clients.transfers().cancel_transfer(request).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn accept(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
) -> Result<Response, ApiError> {
    let request = context.request(AcceptTransferRequest { repository: Some(path.repository()) });
    let answer = api.clients.transfers().accept_transfer(request).await?.into_inner();
    Ok(json::accepted(api.repository(&context, answer.repository)?))
}

/// Answers 204 instead of the repository if the caller sees it no longer.
async fn reject(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
) -> Result<Response, ApiError> {
    let request = context.request(RejectTransferRequest { repository: Some(path.repository()) });
    let answer = api.clients.transfers().reject_transfer(request).await?.into_inner();
    match answer.repository {
        Some(repository) => Ok(json::ok(api.repository(&context, Some(repository))?)),
        None => Ok(StatusCode::NO_CONTENT.into_response()),
    }
}
