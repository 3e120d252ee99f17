pub(super) mod commit;

use std::sync::Arc;

use bytes::Bytes;
use ferrite_core::{version::PreconditionFailed, writer::Scope};
use ferrite_proto::{
    git::{
        self, ChangeFilesRequest, ChangeFilesResponse, CreateContentsRequest, CreateContentsResponse,
        DeleteContentsRequest, DeleteContentsResponse, Directory, FileOperation, GetContentsRequest,
        GetContentsResponse, PutContentsRequest, PutContentsResponse, get_contents_response::Contents,
    },
    id::RepositoryId,
};
use ferrite_rpc::version;
use git_store::{
    repo::{
        deltas::LoadCheck,
        objects::full_id,
        read,
        read::{Target, contents::MAX_INLINE_BYTES, entry::read_blob},
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

use super::{authorize, decode, decode::FieldErrors, encode};
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

/// Creates one file in one commit. The stored response leaves out the content, because a repeated
/// request carries it again.
pub(super) async fn create_contents(
    state: &AppState,
    request: Request<CreateContentsRequest>,
) -> Result<CreateContentsResponse, RpcError> {
    let mut context = commit::begin(state, &request, request.get_ref().repository_id, "CreateContents").await?;
    let request = request.into_inner();
    let (branches, people) = ([request.branch.as_str(), &request.new_branch], [request.author, request.committer]);
    let mut errors = FieldErrors::default();
    let draft = context.draft(state, &mut errors, branches, request.message, people, request.signoff);
    let size = errors.take(commit::check_file_size(state, request.content.len()));
    let context = context.with_content(request.content.len());
    let path = errors.take(strict_path("path", &request.path));
    let (Some(draft), Some(()), Some(path)) = (draft, size, path) else { return Err(errors.into_error()) };
    let content = inline(&request.content);
    let file = FileChange { path, operation: Operation::Create(request.content), expected_blob: None };
    let respond = |mut prepared: PreparedCommit| {
        let entry = prepared.entries.pop().map(encode::entry);
        let (commit, branch) = commit::result(prepared);
        CreateContentsResponse { entry, commit, branch }
    };
    let (written, precondition) = (vec![file.path.clone()], FilePrecondition::of_request(&file.path));
    let put = PutFile { file, draft };
    let prepare = move |repo: &git2::Repository| put_file(repo, &put, &|found| precondition.require(found));
    let mut response = commit::commit(state, context, written, prepare, respond).await?;
    if let Some(entry) = &mut response.entry {
        entry.content = content;
    }
    Ok(response)
}

/// Creates, replaces or moves one file in one commit. The stored response is as in
/// [`create_contents`].
pub(super) async fn put_contents(
    state: &AppState,
    request: Request<PutContentsRequest>,
) -> Result<PutContentsResponse, RpcError> {
    let mut context = commit::begin(state, &request, request.get_ref().repository_id, "PutContents").await?;
    let request = request.into_inner();
    let id = RepositoryId(request.repository_id);
    let (branches, people) = ([request.branch.as_str(), &request.new_branch], [request.author, request.committer]);
    let mut errors = FieldErrors::default();
    let draft = context.draft(state, &mut errors, branches, request.message, people, request.signoff);
    let content_bytes = request.content.as_ref().map_or(0, Bytes::len);
    let size = errors.take(commit::check_file_size(state, content_bytes));
    let context = context.with_content(content_bytes);
    let expected_blob = errors.take(decode::blob("sha", &request.expected_blob_id));
    let path = errors.take(strict_path("path", &request.path));
    let from = path.as_ref().and_then(|path| errors.take(moved_from("from_path", &request.from_path, path)));
    let (Some(draft), Some(()), Some(expected_blob), Some(path), Some(from)) = (draft, size, expected_blob, path, from)
    else {
        return Err(errors.into_error());
    };
    let content = match (&from, request.content) {
        (Some(_), content) => content,
        (None, None) if !request.from_path.is_empty() => return Err(is_required("content").into()),
        (None, content) => Some(content.unwrap_or_default()),
    };
    let operation = match from {
        Some(from) => Operation::Move(from, content.clone()),
        None => Operation::Put(content.clone().unwrap_or_default()),
    };
    let file = FileChange { path, operation, expected_blob };
    let respond = |mut prepared: PreparedCommit| {
        let entry = prepared.entries.pop().map(encode::entry);
        let is_update = prepared.is_update;
        let (commit, branch) = commit::result(prepared);
        PutContentsResponse { entry, commit, branch, is_update }
    };
    let (written, precondition) = (vec![file.path.clone()], FilePrecondition::of_request(&file.path));
    let put = PutFile { file, draft };
    let prepare = move |repo: &git2::Repository| put_file(repo, &put, &|found| precondition.require(found));
    let mut response = commit::commit(state, context, written, prepare, respond).await?;
    if let Some(entry) = &mut response.entry {
        entry.content = match &content {
            Some(content) => inline(content),
            None => moved_content(state, id, &entry.id).await,
        };
    }
    Ok(response)
}

/// Returns the content as a response shows it.
fn inline(content: &Bytes) -> Option<Bytes> {
    (content.len() as u64 <= MAX_INLINE_BYTES).then(|| content.clone())
}

/// Reads the content of a file that was moved unchanged. `None` if it is too large, and if it cannot
/// be read now: the commit is made.
async fn moved_content(state: &AppState, id: RepositoryId, blob_id: &str) -> Option<Bytes> {
    let blob = full_id(blob_id.as_bytes())?;
    let read = state.pool.run(id, move |repo| read_blob(&LoadCheck::new(repo), blob, MAX_INLINE_BYTES)).await;
    read.ok()?.1.map(Bytes::from)
}

/// Parses the path that a file moves from; `None` if it is empty or that of the file itself.
fn moved_from(field: &str, from: &[u8], path: &TreePath) -> Result<Option<TreePath>, GitError> {
    if from.is_empty() || from == path.as_bytes() {
        return Ok(None);
    }
    strict_path(field, from).map(Some)
}

fn strict_path(field: &str, path: &[u8]) -> Result<TreePath, GitError> {
    TreePath::strict(path).map_err(|error| error.of(field))
}

fn is_required(field: &str) -> GitError {
    GitError::invalid(field, "required", "is required")
}

pub(super) async fn delete_contents(
    state: &AppState,
    request: Request<DeleteContentsRequest>,
) -> Result<DeleteContentsResponse, RpcError> {
    let mut context = commit::begin(state, &request, request.get_ref().repository_id, "DeleteContents").await?;
    let request = request.into_inner();
    let (branches, people) = ([request.branch.as_str(), &request.new_branch], [request.author, request.committer]);
    let mut errors = FieldErrors::default();
    let draft = context.draft(state, &mut errors, branches, request.message, people, request.signoff);
    let expected_blob = errors.take(decode::blob("sha", &request.expected_blob_id));
    let path = errors.take(strict_path("path", &request.path));
    let (Some(draft), Some(expected_blob), Some(path)) = (draft, expected_blob, path) else {
        return Err(errors.into_error());
    };
    let delete = DeleteFile { path, expected_blob, draft };
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
    let (branches, people) = ([request.branch.as_str(), &request.new_branch], [request.author, request.committer]);
    let mut errors = FieldErrors::default();
    let draft = context.draft(state, &mut errors, branches, request.message, people, request.signoff);
    let content_bytes = request.files.iter().filter_map(|file| file.content.as_ref()).map(Bytes::len).sum();
    let context = context.with_content(content_bytes);
    // One file above the limit is enough to reject the request.
    let files = request.files.into_iter().take(MAX_FILES + 1).enumerate();
    let files = files.map(|(index, file)| {
        let size = errors.take(commit::check_file_size(state, file.content.as_ref().map_or(0, Bytes::len)));
        let change = parse_change(&mut errors, index, &file);
        size.and(change)
    });
    // Not short-circuiting, so that the wrong fields of all files are found.
    let files: Vec<_> = files.collect();
    let (Some(draft), Some(files)) = (draft, files.into_iter().collect::<Option<Vec<_>>>()) else {
        return Err(errors.into_error());
    };
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

/// Checks the change of one file; `None` with `errors`.
fn parse_change(errors: &mut FieldErrors, index: usize, file: &git::FileChange) -> Option<FileChange> {
    let field = |name: &str| format!("files[{index}].{name}");
    let path = errors.take(strict_path(&field("path"), &file.path));
    let expected_blob = errors.take(decode::blob(&field("sha"), &file.expected_blob_id));
    let (path, expected_blob) = (path?, expected_blob?);
    let operation = errors.take(parse_operation(&field, file, &path, expected_blob.is_some()))?;
    Some(FileChange { path, operation, expected_blob })
}

fn parse_operation(
    field: &dyn Fn(&str) -> String,
    file: &git::FileChange,
    path: &TreePath,
    expects_blob: bool,
) -> Result<Operation, GitError> {
    let refuse = |name: &str, message: &str| GitError::invalid(&field(name), "invalid", message);
    let kind = file.operation();
    let from = match kind {
        FileOperation::Move | FileOperation::Rename => Some(strict_path(&field("from_path"), &file.from_path)?),
        FileOperation::Create | FileOperation::Update | FileOperation::Upload | FileOperation::Delete => {
            moved_from(&field("from_path"), &file.from_path, path)?
        }
        FileOperation::Unspecified => {
            let message = "must be create, update, upload, delete, move or rename";
            return Err(GitError::invalid(&field("operation"), "required", message));
        }
    };
    let has_content = file.content.as_ref().is_some_and(|content| !content.is_empty());
    let content = || file.content.clone().ok_or_else(|| is_required(&field("content")));
    Ok(match (kind, from) {
        (FileOperation::Delete, _) if has_content => {
            return Err(refuse("content", "must not be set when deleting a file"));
        }
        (FileOperation::Rename, _) if has_content => {
            return Err(refuse("content", "must not be set when renaming a file"));
        }
        (FileOperation::Delete, Some(_)) => {
            return Err(refuse("from_path", "must not be set when deleting a file"));
        }
        (FileOperation::Delete, None) => Operation::Delete,
        (FileOperation::Rename, Some(from)) => Operation::Move(from, None),
        (FileOperation::Move, Some(from)) => Operation::Move(from, file.content.clone()),
        (_, Some(from)) => Operation::Move(from, Some(content()?)),
        (FileOperation::Create, None) if expects_blob => {
            return Err(refuse("sha", "is only allowed for existing files"));
        }
        (FileOperation::Create, None) => Operation::Create(content()?),
        (FileOperation::Update, None) => Operation::Update(content()?),
        (_, None) => Operation::Put(content()?),
    })
}
