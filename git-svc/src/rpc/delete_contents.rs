use ferrite_proto::git::{DeleteContentsRequest, DeleteContentsResponse};
use tonic::Request;

use super::commit;
use crate::{
    app::App,
    failure::Failure,
    path::TreePath,
    write::{DeleteFile, delete_file},
};

/// Removes one file in one commit.
pub(super) async fn delete_contents(
    app: &App,
    request: Request<DeleteContentsRequest>,
) -> Result<DeleteContentsResponse, Failure> {
    let commit::Asked { request, draft, by } = commit::ask(app, request).await?;
    let delete = DeleteFile {
        expected_blob: commit::blob("sha", &request.expected_blob_id)?,
        path: TreePath::strict(&request.path).map_err(|error| error.of("path"))?,
        draft,
    };
    let answer = |prepared| {
        let (commit, branch) = commit::result(prepared);
        DeleteContentsResponse { commit, branch }
    };
    commit::commit(app, by.write(delete), delete_file, answer).await
}
