mod commit;

use std::sync::Arc;

use ferrite_core::{version::PreconditionFailed, writer::Scope};
use ferrite_proto::git::{
    self, ChangeFilesRequest, ChangeFilesResponse, DeleteContentsRequest, DeleteContentsResponse, Directory,
    FileOperation, GetContentsRequest, GetContentsResponse, PutContentsRequest, PutContentsResponse,
    get_contents_response::Contents,
};
use ferrite_rpc::version;
use git_store::{
    repo::{
        read,
        read::{Target, contents::MAX_INLINE_BYTES},
        revision::Revision,
        write,
        write::{
            ChangeFiles, DeleteFile, FileChange, MAX_FILES, Operation, PreparedCommit, PutFile, delete_file, put_file,
        },
    },
    types::{error::GitError, path::TreePath},
};
use git2::Oid;
use tonic::Request;

use super::{authorize, decode, encode};
use crate::{rpc_error::RpcError, state::AppState};

/// Returns the file or directory at a path. An invalid path yields `PathNotFound`, like a missing
/// one.
pub(super) async fn get_contents(
    state: &AppState,
    request: Request<GetContentsRequest>,
) -> Result<GetContentsResponse, RpcError> {
    let (request, id) = authorize(state, request, |request| request.repository_id).await?;
    let revision = Revision::parse(&request.revision)?;
    let path = TreePath::clean(&request.path).map_err(|_| GitError::PathNotFound)?;
    // Build the response on the pool thread too: a directory may have very many entries.
    let job = move |repo: &git2::Repository| {
        let found = read::contents(repo, &revision, &path)?;
        let version = match &found.target {
            Target::Entry(entry) => Some(encode::entry_version(entry.kind, &path, entry.id)),
            Target::Directory(_) => None,
        };
        Ok((response(found), version))
    };
    let (response, version) = state.pool.run(id, job).await?;
    // Directories have no version, because no write targets one.
    if let Some(version) = version {
        version::tell(&version);
    }
    Ok(response)
}

fn response(found: read::Contents) -> GetContentsResponse {
    let contents = match found.target {
        Target::Entry(entry) => Contents::Entry(encode::entry(entry)),
        Target::Directory(entries) => {
            Contents::Directory(Directory { entries: entries.into_iter().map(encode::entry).collect() })
        }
    };
    GetContentsResponse {
        contents: Some(contents),
        commit_id: found.commit.map(|id| id.to_string()).unwrap_or_default(),
        display_ref: found.display_ref,
    }
}

/// A precondition of a request on the file it writes. Checked on the thread that reads the branch.
struct FilePrecondition {
    scope: Option<Arc<Scope>>,
    path: TreePath,
}

impl FilePrecondition {
    fn of_request(path: &TreePath) -> Self {
        Self { scope: Scope::current(), path: path.clone() }
    }

    /// Checks the precondition against the entry at the path, if there is one.
    fn require(&self, found: Option<(read::EntryKind, Oid)>) -> Result<(), PreconditionFailed> {
        let Some(scope) = &self.scope else { return Ok(()) };
        let version = found.map(|(kind, id)| encode::entry_version(kind, &self.path, id));
        scope.versions().require(version.as_ref())
    }
}

/// Creates or replaces one file in one commit. The stored response leaves out the content, because
/// a repeated request carries it again.
pub(super) async fn put_contents(
    state: &AppState,
    request: Request<PutContentsRequest>,
) -> Result<PutContentsResponse, RpcError> {
    let mut context = commit::begin(state, &request, request.get_ref().repository_id, "PutContents").await?;
    let request = request.into_inner();
    let branches = [request.branch.as_str(), &request.new_branch];
    let draft = context.draft(state, branches, request.message, request.author, request.committer)?;
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
    let (written, precondition) = (vec![put.path.clone()], FilePrecondition::of_request(&put.path));
    let prepare = move |repo: &git2::Repository| put_file(repo, &put, &|found| precondition.require(found));
    let mut response = commit::commit(state, context, written, prepare, respond).await?;
    if let Some(entry) = &mut response.entry {
        entry.content = inline_content;
    }
    Ok(response)
}

pub(super) async fn delete_contents(
    state: &AppState,
    request: Request<DeleteContentsRequest>,
) -> Result<DeleteContentsResponse, RpcError> {
    let mut context = commit::begin(state, &request, request.get_ref().repository_id, "DeleteContents").await?;
    let request = request.into_inner();
    let branches = [request.branch.as_str(), &request.new_branch];
    let draft = context.draft(state, branches, request.message, request.author, request.committer)?;
    let delete = DeleteFile {
        expected_blob: decode::blob("sha", &request.expected_blob_id)?,
        path: TreePath::strict(&request.path).map_err(|error| error.of("path"))?,
        draft,
    };
    let respond = |prepared| {
        let (commit, branch) = commit::result(prepared);
        DeleteContentsResponse { commit, branch }
    };
    let precondition = FilePrecondition::of_request(&delete.path);
    let prepare = move |repo: &git2::Repository| delete_file(repo, &delete, &|found| precondition.require(found));
    commit::commit(state, context, Vec::new(), prepare, respond).await
}

pub(super) async fn change_files(
    state: &AppState,
    request: Request<ChangeFilesRequest>,
) -> Result<ChangeFilesResponse, RpcError> {
    let mut context = commit::begin(state, &request, request.get_ref().repository_id, "ChangeFiles").await?;
    let request = request.into_inner();
    let branches = [request.branch.as_str(), &request.new_branch];
    let draft = context.draft(state, branches, request.message, request.author, request.committer)?;
    let content_bytes = request.files.iter().filter_map(|file| file.content.as_ref()).map(bytes::Bytes::len).sum();
    let context = context.with_content(content_bytes);
    // One file above the limit is enough to reject the request.
    let files = request.files.into_iter().take(MAX_FILES + 1).enumerate();
    let files = files.map(|(index, file)| {
        file.content.iter().try_for_each(|content| commit::check_file_size(state, content.len()))?;
        parse_change(index, file)
    });
    let files = files.collect::<Result<Vec<_>, _>>()?;
    let change = ChangeFiles { files, draft };
    let respond = |mut prepared: PreparedCommit| {
        let entries = std::mem::take(&mut prepared.entries).into_iter().map(encode::entry).collect();
        let (commit, branch) = commit::result(prepared);
        ChangeFilesResponse { entries, commit, branch }
    };
    let written = change.files.iter().filter(|file| file.operation != Operation::Delete);
    let written = written.map(|file| file.path.clone()).collect();
    commit::commit(state, context, written, move |repo| write::change_files(repo, &change), respond).await
}

fn parse_change(index: usize, file: git::FileChange) -> Result<FileChange, GitError> {
    let field = |name: &str| format!("files[{index}].{name}");
    let path = TreePath::strict(&file.path).map_err(|error| error.of(&field("path")))?;
    let expected_blob = decode::blob(&field("sha"), &file.expected_blob_id)?;
    let kind = file.operation();
    if kind != FileOperation::Move && !file.from_path.is_empty() {
        return Err(GitError::invalid(&field("from_path"), "invalid", "is only allowed for moves"));
    }
    let required = || GitError::invalid(&field("content"), "required", "is required");
    let operation = match (kind, file.content) {
        (FileOperation::Create, _) if expected_blob.is_some() => {
            return Err(GitError::invalid(&field("sha"), "invalid", "is only allowed for existing files"));
        }
        (FileOperation::Create, content) => Operation::Create(content.ok_or_else(required)?),
        (FileOperation::Update, content) => Operation::Update(content.ok_or_else(required)?),
        (FileOperation::Delete, None) => Operation::Delete,
        (FileOperation::Delete, Some(_)) => {
            return Err(GitError::invalid(&field("content"), "invalid", "must not be set when deleting a file"));
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
