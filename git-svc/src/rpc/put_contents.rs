//! RPC `PutContents`. The content of the file is not stored with the response, as a repeated request has it, too.

use ferrite_proto::git::{PutContentsRequest, PutContentsResponse};
use tonic::Request;

use super::{commit, decode, encode};
use crate::{
    repo::{
        read::contents::MAX_INLINE_BYTES,
        write::{PreparedCommit, PutFile, put_file},
    },
    state::AppState,
    types::{path::TreePath, rpc_error::RpcError},
};

/// Creates or replaces one file in one commit.
pub(super) async fn put_contents(
    state: &AppState,
    request: Request<PutContentsRequest>,
) -> Result<PutContentsResponse, RpcError> {
    let context = commit::begin(state, &request, request.get_ref().repository_id, "PutContents").await?;
    let request = request.into_inner();
    let draft = context.draft(state, &request.branch, request.message, request.author, request.committer)?;
    commit::check_file_size(state, request.content.len())?;
    let context = context.with_content(request.content.len());
    let inline_content = Some(request.content.clone()).filter(|content| content.len() as u64 <= MAX_INLINE_BYTES);
    let put = PutFile {
        expected_blob: decode::blob("sha", &request.expected_blob_id)?,
        path: TreePath::strict(&request.path).map_err(|error| error.of("path"))?,
        content: request.content,
        draft,
    };
    let respond = |mut prepared: PreparedCommit| {
        let entry = prepared.entries.pop().map(encode::entry);
        let (commit, branch) = commit::result(prepared);
        PutContentsResponse { entry, commit, branch }
    };
    let written = vec![put.path.clone()];
    let mut response = commit::commit(state, context, written, move |repo| put_file(repo, &put), respond).await?;
    if let Some(entry) = &mut response.entry {
        entry.content = inline_content;
    }
    Ok(response)
}
