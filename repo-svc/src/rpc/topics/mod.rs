//! Topics of repositories.

mod add_topic;
mod list_topics;
mod remove_topic;
mod set_topics;

use ferrite_kit::auth::AuthError;
use ferrite_kit::idempotency::IdempotencyKey;
use ferrite_proto::repo::topic_service_server::TopicService;
use ferrite_proto::repo::*;
use prost::Message;

use super::change;
use super::dispatch::permitted_service;
use crate::error::RepoError;
use crate::model::Topics;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, Repository, Target};

permitted_service!(TopicService {
    list_topics(ListTopicsRequest) -> ListTopicsResponse;
    set_topics(SetTopicsRequest) -> SetTopicsResponse;
    add_topic(AddTopicRequest) -> AddTopicResponse;
    remove_topic(RemoveTopicRequest) -> RemoveTopicResponse;
});

/// Changes the topics of a repository by `after`, and records the change, if it is one, in the audit log.
///
/// # Errors
/// [`AuthError::RepositoryNotFound`] if the repository was deleted meanwhile, those of `after`, or those of the database.
async fn change_topics<A: Message>(
    state: &AppState,
    permit: &Permit,
    repository: &Repository,
    key: Option<&IdempotencyKey>,
    response: A,
    after: impl FnOnce(&Topics) -> Result<Topics, RepoError>,
) -> Result<A, RepoError> {
    let (id, now) = (repository.id(), state.clock.now_us());
    let mut tx = state.db.begin().await?;
    let before = state.repositories.lock_topics(&mut tx, id).await?.ok_or(AuthError::RepositoryNotFound)?;
    let after = after(&before)?;
    if after != before {
        state.repositories.set_topics(&mut tx, id, &after, now).await?;
        let details = [("fields", "topics".to_owned())];
        change::record(&mut tx, permit, Action::RepositoryUpdate, Target::repository(repository), &details, now)
            .await?;
    }
    change::commit(tx, key, response, now).await
}
