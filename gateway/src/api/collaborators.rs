//! Collaborators of a repository.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ferrite_proto::repo::{
    GetCollaboratorRequest, ListCollaboratorsRequest, RemoveCollaboratorRequest, SetCollaboratorRequest,
};

use super::access::PermissionCheck;
use super::operation;
use super::state::ApiState;
use crate::auth::Authenticated;
use crate::dto::Collaborator;
use crate::http::body::JsonBody;
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::{Params, RepoPath};
use crate::http::query::Query;
use crate::http::routes::routes;

routes! { ApiState:
    "/api/v1/repos/{owner}/{repo}/collaborators" => get list as operation::LIST_COLLABORATORS;
    "/api/v1/repos/{owner}/{repo}/collaborators/{collaborator}" =>
        get get as operation::GET_COLLABORATOR,
        put set as operation::SET_COLLABORATOR,
        delete remove as operation::REMOVE_COLLABORATOR;
}

async fn list(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    query: Query,
) -> Result<Response, ApiError> {
    let page = query.page(PageLimits::WHOLE_LIST);
    let request =
        ListCollaboratorsRequest { repository: Some(path.repository()), page: page.number, page_size: page.size };
    let answer = api.clients.collaborators().list_collaborators(context.request(request)).await?.into_inner();
    let collaborators =
        answer.collaborators.into_iter().map(|collaborator| Collaborator::new(collaborator, &api.links));
    let collaborators = collaborators.collect::<Result<Vec<_>, _>>()?;
    Ok(json::page(collaborators, query.headers(page, answer.total_count, &api.links)))
}

async fn get(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    params: Params,
) -> Result<Response, ApiError> {
    let request = GetCollaboratorRequest { repository: Some(path.repository()), username: params.name("collaborator") };
    api.clients.collaborators().get_collaborator(context.request(request)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn set(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    params: Params,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let check = PermissionCheck::of(operation::SET_COLLABORATOR).on_repository(path.repository());
    let decode = api.decode_body(&context, check, body, |fields| SetCollaboratorRequest {
        repository: Some(path.repository()),
        username: params.name("collaborator"),
        permission: fields.optional_text("permission"),
    });
    let request = context.request(decode.await?);
    api.clients.collaborators().set_collaborator(request).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn remove(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    params: Params,
) -> Result<Response, ApiError> {
    let request =
        RemoveCollaboratorRequest { repository: Some(path.repository()), username: params.name("collaborator") };
    api.clients.collaborators().remove_collaborator(context.request(request)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
