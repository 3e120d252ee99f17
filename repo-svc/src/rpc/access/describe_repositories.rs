use ferrite_proto::repo::{DescribeRepositoriesRequest, DescribeRepositoriesResponse};
use tonic::Request;

use super::super::encode;
use crate::access::Viewer;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

const MAX_REPOSITORIES_PER_REQUEST: usize = 1_000;

pub(super) async fn handle(
    state: &AppState,
    _: Permit,
    request: Request<DescribeRepositoriesRequest>,
) -> Result<DescribeRepositoriesResponse, RepoError> {
    let mut ids = request.into_inner().repository_ids;
    if ids.len() > MAX_REPOSITORIES_PER_REQUEST {
        let message = "at most 1,000 repositories can be asked for at once";
        return Err(RepoError::field("repository_ids", "too_long", message));
    }
    ids.sort_unstable();
    ids.dedup();
    let rows = state.repositories.find_many(&ids, &Viewer::of(None)).await?;
    Ok(DescribeRepositoriesResponse { repositories: rows.into_iter().map(encode::repository_snapshot).collect() })
}
