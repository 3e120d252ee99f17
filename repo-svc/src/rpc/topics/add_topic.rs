use ferrite_kit::idempotency::IdempotencyKey;
use ferrite_proto::repo::{AddTopicRequest, AddTopicResponse};
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
    request: Request<AddTopicRequest>,
) -> Result<AddTopicResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "AddTopic")?;
    let access = repeat::repository(state, &permit, request.get_ref().repository.clone());
    let request = request.into_inner();
    let work = async {
        let repository = permit.repository(&state.repositories, request.repository).await?;
        let topic = Topic::parse(&request.topic, "topic")?;
        let with_it = |before: &Topics| before.with(topic);
        change_topics(state, &permit, &repository, key.as_ref(), AddTopicResponse {}, with_it).await
    };
    repeat::once(&state.db, key.as_ref(), access, work).await
}
