use ferrite_db::idempotency::IdempotencyKey;
use ferrite_proto::repo::topic_service_server::TopicService;
use ferrite_proto::repo::*;
use ferrite_rpc::auth::AuthError;
use ferrite_rpc::version::{self, is_conditional};
use prost::Message;
use tonic::Request;

use super::authorized::Authorized;
use super::dispatch::authorized_service;
use super::{change, repeat};
use crate::error::RepoError;
use crate::model::{Topic, Topics};
use crate::state::AppState;
use crate::store::{Action, Repository, Target};

authorized_service!(TopicService {
    list_topics(ListTopicsRequest) -> ListTopicsResponse;
    set_topics(SetTopicsRequest) -> SetTopicsResponse;
    add_topic(AddTopicRequest) -> AddTopicResponse;
    remove_topic(RemoveTopicRequest) -> RemoveTopicResponse;
});

async fn list_topics(
    state: &AppState,
    authorized: Authorized,
    request: Request<ListTopicsRequest>,
) -> Result<ListTopicsResponse, RepoError> {
    let repository = authorized.repository(&state.repositories, request.into_inner().repository).await?;
    let response = encode(&Topics::of_column(&repository.topics));
    version::tell(&response);
    Ok(response)
}

fn encode(topics: &Topics) -> ListTopicsResponse {
    ListTopicsResponse { topics: topics.iter().map(|topic| topic.as_str().to_owned()).collect() }
}

async fn set_topics(
    state: &AppState,
    authorized: Authorized,
    request: Request<SetTopicsRequest>,
) -> Result<SetTopicsResponse, RepoError> {
    let key = repeat::key_for_repository(state, &authorized, &request, "SetTopics", |request| &mut request.repository)
        .await?;
    let access = repeat::repository(state, &authorized, request.get_ref().repository.clone());
    let request = request.into_inner();
    let work = async {
        let repository = authorized.repository(&state.repositories, request.repository).await?;
        let topics = Topics::parse(&request.topics)?;
        change_topics(state, &authorized, &repository, key.as_ref(), SetTopicsResponse {}, |_| Ok(topics)).await
    };
    repeat::once(&state.db, key.as_ref(), access, work).await
}

async fn add_topic(
    state: &AppState,
    authorized: Authorized,
    request: Request<AddTopicRequest>,
) -> Result<AddTopicResponse, RepoError> {
    let key =
        repeat::key_for_repository(state, &authorized, &request, "AddTopic", |request| &mut request.repository).await?;
    let access = repeat::repository(state, &authorized, request.get_ref().repository.clone());
    let request = request.into_inner();
    let work = async {
        let repository = authorized.repository(&state.repositories, request.repository).await?;
        let topic = Topic::parse(&request.topic, "topic")?;
        let with_it = |before: &Topics| before.with(topic);
        change_topics(state, &authorized, &repository, key.as_ref(), AddTopicResponse {}, with_it).await
    };
    repeat::once(&state.db, key.as_ref(), access, work).await
}

async fn remove_topic(
    state: &AppState,
    authorized: Authorized,
    request: Request<RemoveTopicRequest>,
) -> Result<RemoveTopicResponse, RepoError> {
    let key =
        repeat::key_for_repository(state, &authorized, &request, "RemoveTopic", |request| &mut request.repository)
            .await?;
    let access = repeat::repository(state, &authorized, request.get_ref().repository.clone());
    let request = request.into_inner();
    let work = async {
        let repository = authorized.repository(&state.repositories, request.repository).await?;
        // No repository has an invalid topic.
        let topic = Topic::parse(&request.topic, "topic").map_err(|_| RepoError::TopicNotFound)?;
        let without_it = |before: &Topics| before.without(&topic).ok_or(RepoError::TopicNotFound);
        change_topics(state, &authorized, &repository, key.as_ref(), RemoveTopicResponse {}, without_it).await
    };
    repeat::once(&state.db, key.as_ref(), access, work).await
}

/// Changes the topics of a repository with `after`. Records the change in the audit log if there is
/// one.
async fn change_topics<A: Message>(
    state: &AppState,
    authorized: &Authorized,
    repository: &Repository,
    key: Option<&IdempotencyKey>,
    response: A,
    after: impl FnOnce(&Topics) -> Result<Topics, RepoError>,
) -> Result<A, RepoError> {
    let (id, now) = (repository.id(), state.clock.now_us());
    let mut tx = state.db.begin().await?;
    let before = state.repositories.lock_topics(&mut tx, id).await?.ok_or(AuthError::RepositoryNotFound)?;
    let after = after(&before)?;
    if is_conditional() {
        tx.require_version(Some(&encode(&before)))?;
    }
    if after != before {
        state.repositories.set_topics(&mut tx, id, &after, now).await?;
        let details = [("fields", "topics".to_owned())];
        change::record(&mut tx, authorized, Action::RepositoryUpdate, Target::repository(repository), &details, now)
            .await?;
    }
    change::commit(tx, key, response, now).await
}
