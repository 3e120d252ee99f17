use ferrite_proto::repo::{ListTopicsRequest, ListTopicsResponse};
use tonic::Request;

use crate::error::RepoError;
use crate::model::Topics;
use crate::rpc::permit::Permit;
use crate::state::AppState;

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<ListTopicsRequest>,
) -> Result<ListTopicsResponse, RepoError> {
    let repository = permit.repository(&state.repositories, request.into_inner().repository).await?;
    let topics = Topics::of_column(&repository.topics);
    Ok(ListTopicsResponse { topics: topics.iter().map(|topic| topic.as_str().to_owned()).collect() })
}
