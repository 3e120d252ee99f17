use ferrite_proto::operation;
use ferrite_proto::repo::{AddTopicRequest, ListTopicsRequest, RemoveTopicRequest, SetTopicsRequest};
use serde::Serialize;

use crate::api::call::{Authenticated, MaybeAuthenticated, operations};
use crate::http::error::ApiResult;
use crate::http::path::{Params, RepoPath};
use crate::http::request::{Present, RequestBody, Texts, fields};
use crate::http::response::{Json, NoContent};

operations! {
    "/api/v1/repos/{owner}/{repo}/topics" => get list as operation::LIST_TOPICS, put set as operation::SET_TOPICS;
    "/api/v1/repos/{owner}/{repo}/topics/{topic}" =>
        put add as operation::ADD_TOPIC,
        delete remove as operation::REMOVE_TOPIC;
}

ferrite_api_types::shape! {
    /// The topics of a repository.
    #[derive(Debug, Serialize)]
    struct Topics {
        topics: Vec<String>,
    }
}

fields! {
    /// The new topics of a repository.
    struct NewTopics {
        /// The topics in order, at most 25. Duplicates are ignored. An empty list removes all.
        topics: Present<Texts> = ["rust", "git-server"],
    }
}

async fn list(MaybeAuthenticated(call): MaybeAuthenticated, path: RepoPath) -> ApiResult<Json<Topics>> {
    let request = call.request(ListTopicsRequest { repository: Some(path.repository()) });
    let response = call.clients.topics().list_topics(request).await?.into_inner();
    Ok(Json(Topics { topics: response.topics }))
}

async fn set(Authenticated(call): Authenticated, path: RepoPath, body: RequestBody<NewTopics>) -> ApiResult<NoContent> {
    let (repository, NewTopics { topics }, _permit) = call.repository_body(&path, operation::SET_TOPICS, body).await?;
    let request = call.request(SetTopicsRequest { repository: Some(repository), topics });
    call.clients.topics().set_topics(request).await?;
    Ok(NoContent)
}

async fn add(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult<NoContent> {
    let request = AddTopicRequest { repository: Some(path.repository()), topic: params.name("topic") };
    call.clients.topics().add_topic(call.request(request)).await?;
    Ok(NoContent)
}

async fn remove(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult<NoContent> {
    let request = RemoveTopicRequest { repository: Some(path.repository()), topic: params.name("topic") };
    call.clients.topics().remove_topic(call.request(request)).await?;
    Ok(NoContent)
}
