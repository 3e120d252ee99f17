use ferrite_proto::git::{PutContentsRequest, PutContentsResponse};
use tonic::Request;

use super::{commit, encode};
use crate::{
    repo::write::{PreparedCommit, PutFile, put_file},
    state::AppState,
    types::{path::TreePath, rpc_error::RpcError},
};

/// Creates or replaces one file in one commit.
pub(super) async fn put_contents(
    state: &AppState,
    request: Request<PutContentsRequest>,
) -> Result<PutContentsResponse, RpcError> {
    let commit::AuthorizedRequest { request, draft, by } = commit::authorize_commit(state, request).await?;
    commit::check_file_size(state, request.content.len())?;
    let put = PutFile {
        expected_blob: commit::blob("sha", &request.expected_blob_id)?,
        path: TreePath::strict(&request.path).map_err(|error| error.of("path"))?,
        content: request.content.into(),
        draft,
    };
    let answer = |mut prepared: PreparedCommit| {
        let entry = prepared.entries.pop().map(encode::entry);
        let (commit, branch) = commit::result(prepared);
        PutContentsResponse { entry, commit, branch }
    };
    commit::commit(state, by.write(put), put_file, answer).await
}
