use ferrite_kit::idempotency::IdempotencyKey;
use ferrite_proto::repo::{RemoveTopicRequest, RemoveTopicResponse};
use tonic::Request;

use super::change_topics;
use crate::error::RepoError;
use crate::model::{Topic, Topics};
use crate::rpc::permit::Permit;
use crate::rpc::repeat;
use crate::state::AppState;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<RemoveTopicRequest>,
) -> Result<RemoveTopicResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "RemoveTopic")?;
    let access = repeat::repository(state, &permit, request.get_ref().repository.clone());
    let request = request.into_inner();
    let work = async {
        let repository = permit.repository(&state.repositories, request.repository).await?;
        // A text that is no topic is one that the repository does not have.
        let topic = Topic::parse(&request.topic, "topic").map_err(|_| RepoError::TopicNotFound)?;
        let without_it = |before: &Topics| before.without(&topic).ok_or(RepoError::TopicNotFound);
        change_topics(state, &permit, &repository, key.as_ref(), RemoveTopicResponse {}, without_it).await
    };
    repeat::once(&state.db, key.as_ref(), access, work).await
}
