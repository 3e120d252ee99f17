//! `ChangeFiles`: several files in one commit.

use ferrite_proto::git::{self, ChangeFilesRequest, ChangeFilesResponse, FileOperation};
use tonic::Request;

use super::{commit, decode, encode};
use crate::{
    repo::write::{self, ChangeFiles, FileChange, MAX_FILES, Operation, PreparedCommit},
    state::AppState,
    types::{error::GitError, path::TreePath, rpc_error::RpcError},
};

/// Changes several files in one commit.
pub(super) async fn change_files(
    state: &AppState,
    request: Request<ChangeFilesRequest>,
) -> Result<ChangeFilesResponse, RpcError> {
    let context = commit::begin(state, &request, request.get_ref().repository_id, "ChangeFiles").await?;
    let request = request.into_inner();
    let draft = context.draft(state, &request.branch, request.message, request.author, request.committer)?;
    let content_bytes = request.files.iter().filter_map(|file| file.content.as_ref()).map(bytes::Bytes::len).sum();
    let context = context.with_content(content_bytes);
    // One file above the limit is enough for the refusal.
    let files = request.files.into_iter().take(MAX_FILES + 1).enumerate();
    let files = files.map(|(index, file)| {
        file.content.iter().try_for_each(|content| commit::check_file_size(state, content.len()))?;
        parse(index, file)
    });
    let files = files.collect::<Result<Vec<_>, _>>()?;
    let change = ChangeFiles { files, new_branch: decode::branch("new_branch", &request.new_branch)?, draft };
    let respond = |mut prepared: PreparedCommit| {
        let entries = std::mem::take(&mut prepared.entries).into_iter().map(encode::entry).collect();
        let (commit, branch) = commit::result(prepared);
        ChangeFilesResponse { entries, commit, branch }
    };
    let written = change.files.iter().filter(|file| file.operation != Operation::Delete);
    let written = written.map(|file| file.path.clone()).collect();
    commit::commit(state, context, written, move |repo| write::change_files(repo, &change), respond).await
}

fn parse(index: usize, file: git::FileChange) -> Result<FileChange, GitError> {
    let field = |name: &str| format!("files[{index}].{name}");
    let path = TreePath::strict(&file.path).map_err(|error| error.of(&field("path")))?;
    let expected_blob = decode::blob(&field("sha"), &file.expected_blob_id)?;
    let kind = file.operation();
    if kind != FileOperation::Move && !file.from_path.is_empty() {
        return Err(GitError::invalid(&field("from_path"), "invalid", "is for moves only"));
    }
    let required = || GitError::invalid(&field("content"), "required", "must be given");
    let operation = match (kind, file.content) {
        (FileOperation::Create, _) if expected_blob.is_some() => {
            return Err(GitError::invalid(&field("sha"), "invalid", "is for files that exist"));
        }
        (FileOperation::Create, content) => Operation::Create(content.ok_or_else(required)?),
        (FileOperation::Update, content) => Operation::Update(content.ok_or_else(required)?),
        (FileOperation::Delete, None) => Operation::Delete,
        (FileOperation::Delete, Some(_)) => {
            return Err(GitError::invalid(&field("content"), "invalid", "must not be given to delete a file"));
        }
        (FileOperation::Move, content) => {
            let from = TreePath::strict(&file.from_path).map_err(|error| error.of(&field("from_path")))?;
            Operation::Move(from, content)
        }
        (FileOperation::Unspecified, _) => {
            return Err(GitError::invalid(&field("operation"), "required", "must be create, update, delete or move"));
        }
    };
    Ok(FileChange { path, operation, expected_blob })
}
