//! RPC `PutContents`, and its response as it is stored: without the content of the file.

use ferrite_proto::git::{EntryKind, PutContentsRequest, PutContentsResponse};
use git2::{Oid, Repository};
use tonic::Request;

use super::commit::StoredResponse;
use super::{commit, encode};
use crate::{
    repo::{
        read::{contents::MAX_INLINE_BYTES, entry::read_blob},
        write::{PreparedCommit, PutFile, put_file},
    },
    state::AppState,
    types::{error::GitError, path::TreePath, rpc_error::RpcError},
};

impl StoredResponse for PutContentsResponse {
    fn stored(&self) -> Self {
        let mut stored = self.clone();
        if let Some(entry) = stored.entry.as_mut().filter(|entry| entry.kind() == EntryKind::File) {
            entry.content = None;
        }
        stored
    }

    /// Adds the content of the file. One that was removed from the repository since has none, like a large one.
    fn complete(mut self, repo: &Repository) -> Result<Self, GitError> {
        if let Some(entry) = self.entry.as_mut().filter(|entry| entry.kind() == EntryKind::File)
            && let Ok(id) = Oid::from_str(&entry.id)
            && let Ok((_, content)) = read_blob(repo, &repo.odb()?, id, MAX_INLINE_BYTES)
        {
            entry.content = content.map(Into::into);
        }
        Ok(self)
    }
}

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
    let put = PutFile {
        expected_blob: commit::blob("sha", &request.expected_blob_id)?,
        path: TreePath::strict(&request.path).map_err(|error| error.of("path"))?,
        content: request.content.into(),
        draft,
    };
    let respond = |mut prepared: PreparedCommit| {
        let entry = prepared.entries.pop().map(encode::entry);
        let (commit, branch) = commit::result(prepared);
        PutContentsResponse { entry, commit, branch }
    };
    commit::commit(state, context, move |repo| put_file(repo, &put), respond).await
}
