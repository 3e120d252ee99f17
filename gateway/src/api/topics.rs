//! Topics of repositories.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ferrite_proto::repo::{AddTopicRequest, ListTopicsRequest, RemoveTopicRequest, SetTopicsRequest};

use super::access::PermissionCheck;
use super::operation;
use super::state::ApiState;
use crate::auth::Authenticated;
use crate::dto::Topics;
use crate::http::body::JsonBody;
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::path::{Params, RepoPath};
use crate::http::routes::routes;

routes! { ApiState:
    "/api/v1/repos/{owner}/{repo}/topics" => get list as operation::LIST_TOPICS, put set as operation::SET_TOPICS;
    "/api/v1/repos/{owner}/{repo}/topics/{topic}" =>
        put add as operation::ADD_TOPIC,
        delete remove as operation::REMOVE_TOPIC;
}

async fn list(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
) -> Result<Response, ApiError> {
    let request = context.request(ListTopicsRequest { repository: Some(path.repository()) });
    let answer = api.clients.topics().list_topics(request).await?.into_inner();
    Ok(json::ok(Topics { topics: answer.topics }))
}

async fn set(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let check = PermissionCheck::of(operation::SET_TOPICS).on_repository(path.repository());
    let topics = api.decode_body(&context, check, body, |fields| fields.required_list("topics")).await?;
    let request = context.request(SetTopicsRequest { repository: Some(path.repository()), topics });
    api.clients.topics().set_topics(request).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn add(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    params: Params,
) -> Result<Response, ApiError> {
    let request = AddTopicRequest { repository: Some(path.repository()), topic: params.name("topic") };
    api.clients.topics().add_topic(context.request(request)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn remove(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    params: Params,
) -> Result<Response, ApiError> {
    let request = RemoveTopicRequest { repository: Some(path.repository()), topic: params.name("topic") };
    api.clients.topics().remove_topic(context.request(request)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
