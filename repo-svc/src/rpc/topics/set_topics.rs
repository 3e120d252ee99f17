use ferrite_kit::idempotency::IdempotencyKey;
use ferrite_proto::repo::{SetTopicsRequest, SetTopicsResponse};
use tonic::Request;

use super::change_topics;
use crate::error::RepoError;
use crate::model::Topics;
use crate::rpc::permit::Permit;
use crate::rpc::repeat;
use crate::state::AppState;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<SetTopicsRequest>,
) -> Result<SetTopicsResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "SetTopics")?;
    let access = repeat::repository(state, &permit, request.get_ref().repository.clone());
    let request = request.into_inner();
    let work = async {
        let repository = permit.repository(&state.repositories, request.repository).await?;
        let topics = Topics::parse(&request.topics)?;
        change_topics(state, &permit, &repository, key.as_ref(), SetTopicsResponse {}, |_| Ok(topics)).await
    };
    repeat::once(&state.db, key.as_ref(), access, work).await
}
