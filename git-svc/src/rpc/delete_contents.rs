use ferrite_proto::git::{DeleteContentsRequest, DeleteContentsResponse};
use tonic::Request;

use super::{commit, decode};
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
    let context = commit::begin(state, &request, request.get_ref().repository_id, "DeleteContents").await?;
    let request = request.into_inner();
    let draft = context.draft(state, &request.branch, request.message, request.author, request.committer)?;
    let delete = DeleteFile {
        expected_blob: decode::blob("sha", &request.expected_blob_id)?,
        path: TreePath::strict(&request.path).map_err(|error| error.of("path"))?,
        draft,
    };
    let respond = |prepared| {
        let (commit, branch) = commit::result(prepared);
        DeleteContentsResponse { commit, branch }
    };
    commit::commit(state, context, Vec::new(), move |repo| delete_file(repo, &delete), respond).await
}
