use ferrite_proto::git::{DeleteContentsRequest, DeleteContentsResponse};
use tonic::Request;

use super::commit;
use crate::{
    repo::write::{DeleteFile, delete_file},
    state::AppState,
    types::{path::TreePath, rpc_error::RpcError},
};

/// Deletes one file in one commit.
pub(super) async fn delete_contents(
    state: &AppState,
    request: Request<DeleteContentsRequest>,
) -> Result<DeleteContentsResponse, RpcError> {
    let commit::AuthorizedRequest { request, draft, by } = commit::authorize_commit(state, request).await?;
    let delete = DeleteFile {
        expected_blob: commit::blob("sha", &request.expected_blob_id)?,
        path: TreePath::strict(&request.path).map_err(|error| error.of("path"))?,
        draft,
    };
    let answer = |prepared| {
        let (commit, branch) = commit::result(prepared);
        DeleteContentsResponse { commit, branch }
    };
    commit::commit(state, by.write(delete), delete_file, answer).await
}
