use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ferrite_proto::repo::{
    GetCollaboratorRequest, ListCollaboratorsRequest, RemoveCollaboratorRequest, SetCollaboratorRequest,
};

use super::access::Attempt;
use super::operation;
use crate::auth::Signed;
use crate::dto::Collaborator;
use crate::http::body::Payload;
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::page::{Query, WHOLE};
use crate::http::path::{Params, RepoPath};
use crate::http::routes::routes;
use crate::state::Gateway;

routes! { Gateway:
    "/api/v1/repos/{owner}/{repo}/collaborators" => get list as operation::LIST_COLLABORATORS;
    "/api/v1/repos/{owner}/{repo}/collaborators/{collaborator}" =>
        get get as operation::GET_COLLABORATOR,
        put set as operation::SET_COLLABORATOR,
        delete remove as operation::REMOVE_COLLABORATOR;
}

async fn list(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: RepoPath,
    query: Query,
) -> Result<Response, ApiError> {
    let page = query.page(WHOLE);
    let request =
        ListCollaboratorsRequest { repository: Some(path.repository()), page: page.number, page_size: page.size };
    let answer = gateway.clients.collaborators().list_collaborators(call.request(request)).await?.into_inner();
    let shown = answer.collaborators.into_iter().map(|collaborator| Collaborator::new(collaborator, &gateway.links));
    let shown = shown.collect::<Result<Vec<_>, _>>()?;
    Ok(json::page(shown, query.headers(page, answer.total_count, &gateway.links)))
}

async fn get(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: RepoPath,
    params: Params,
) -> Result<Response, ApiError> {
    let request = GetCollaboratorRequest { repository: Some(path.repository()), username: params.name("collaborator") };
    gateway.clients.collaborators().get_collaborator(call.request(request)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn set(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: RepoPath,
    params: Params,
    payload: Payload,
) -> Result<Response, ApiError> {
    let attempt = Attempt::of(operation::SET_COLLABORATOR).on_repository(path.repository());
    let decode = gateway.decoded(&call, attempt, payload, |fields| SetCollaboratorRequest {
        repository: Some(path.repository()),
        username: params.name("collaborator"),
        permission: fields.optional_text("permission"),
    });
    let request = call.request(decode.await?);
    gateway.clients.collaborators().set_collaborator(request).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn remove(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: RepoPath,
    params: Params,
) -> Result<Response, ApiError> {
    let request =
        RemoveCollaboratorRequest { repository: Some(path.repository()), username: params.name("collaborator") };
    gateway.clients.collaborators().remove_collaborator(call.request(request)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
