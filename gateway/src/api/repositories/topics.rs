//! Topics of repositories.

use ferrite_proto::operation;
use ferrite_proto::repo::{AddTopicRequest, ListTopicsRequest, RemoveTopicRequest, SetTopicsRequest};

use crate::api::call::{Authenticated, routes};
use crate::dto::Topics;
use crate::http::body::JsonBody;
use crate::http::error::ApiResult;
use crate::http::fields::FieldReader;
use crate::http::json;
use crate::http::path::{Params, RepoPath};

routes! {
    "/api/v1/repos/{owner}/{repo}/topics" => get list as operation::LIST_TOPICS, put set as operation::SET_TOPICS;
    "/api/v1/repos/{owner}/{repo}/topics/{topic}" =>
        put add as operation::ADD_TOPIC,
        delete remove as operation::REMOVE_TOPIC;
}

async fn list(Authenticated(call): Authenticated, path: RepoPath) -> ApiResult {
    let request = call.request(ListTopicsRequest { repository: Some(path.repository()) });
    let response = call.clients.topics().list_topics(request).await?.into_inner();
    Ok(json::ok(Topics { topics: response.topics }))
}

async fn set(Authenticated(call): Authenticated, path: RepoPath, body: JsonBody) -> ApiResult {
    let topics = |fields: &mut FieldReader| fields.required_list("topics");
    let (repository, topics) = call.decode_repository_body(&path, operation::SET_TOPICS, body, topics).await?;
    let request = call.request(SetTopicsRequest { repository: Some(repository), topics });
    call.clients.topics().set_topics(request).await?;
    Ok(json::no_content())
}

async fn add(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult {
    let request = AddTopicRequest { repository: Some(path.repository()), topic: params.name("topic") };
    call.clients.topics().add_topic(call.request(request)).await?;
    Ok(json::no_content())
}

async fn remove(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult {
    let request = RemoveTopicRequest { repository: Some(path.repository()), topic: params.name("topic") };
    call.clients.topics().remove_topic(call.request(request)).await?;
    Ok(json::no_content())
}
