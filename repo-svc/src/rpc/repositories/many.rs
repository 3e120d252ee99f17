use ferrite_proto::Permission;
use ferrite_proto::repo::{GetRepositoriesRequest, GetRepositoriesResponse};
use tonic::Request;

use crate::error::RepoError;
use crate::rpc::authorized::Authorized;
use crate::rpc::encode;
use crate::state::AppState;

const MAX_REPOSITORIES: usize = 100;

pub(super) async fn get_repositories(
    state: &AppState,
    authorized: Authorized,
    request: Request<GetRepositoriesRequest>,
) -> Result<GetRepositoriesResponse, RepoError> {
    let mut ids = request.into_inner().repository_ids;
    if ids.len() > MAX_REPOSITORIES {
        let message = "a request can look up at most 100 repositories";
        return Err(RepoError::field("repository_ids", "too_long", message));
    }
    ids.sort_unstable();
    ids.dedup();
    if ids.is_empty() {
        return Ok(GetRepositoriesResponse::default());
    }
    let viewer = authorized.viewer();
    let mut rows = state.repositories.find_many_visible(&ids, viewer).await?;
    // A repository is visible to someone who may read only its issues.
    rows.retain(|row| row.level(viewer) >= Permission::Read);
    rows.sort_unstable_by_key(|row| row.id);
    let repositories = encode::repositories(&state.repositories, rows, viewer).await?;
    Ok(GetRepositoriesResponse { repositories })
}
