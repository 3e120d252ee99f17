//! Changes of files, one commit per request.

use ferrite_api_types::convert::require;
use ferrite_api_types::shape;
use ferrite_proto::git::{
    self, ChangeFilesRequest, DeleteContentsRequest, FileChange, FileOperation, PutContentsRequest,
};
use ferrite_proto::operation;
use ferrite_rpc::grpc::with_timeout;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Content, EntryLocation};
use crate::api::access::{Emails, ResolvedAccess};
use crate::api::call::{ApiCall, Authenticated};
use crate::api::git::commits::Commit;
use crate::http::body_limits::{BodyPermit, MAX_FILE_BODY_BYTES};
use crate::http::error::{ApiError, ApiResult};
use crate::http::path::RepoPath;
use crate::http::request::{
    Base64, Fields, JsonObject, Mistakes, NonEmpty, Object, Objects, OffsetTime, Optional, OrDefault, Present,
    RequestBody, Required, Text, Word, fields,
};
use crate::http::response::{Created, Json};
use crate::http::words::words;
use crate::upstream::clients::LONG_CALL_DEADLINE;

/// Maximum commit message: that of a commit of 1 MiB, minus 16 KiB for the rest of the commit.
const MAX_MESSAGE: usize = (1024 - 16) * 1024;

fields! {
    /// The commit fields that every change has.
    struct CommitFields {
        message: Required<Text<MAX_MESSAGE>> = "Change a program.",
        branch: OrDefault<Text<1000>> = "main",
        new_branch: OrDefault<Text<1000>> = "feature/one",
        author: Optional<Object<CommitIdentity>>,
        committer: Optional<Object<CommitIdentity>>,
    }
}

fields! {
    /// A file to write.
    #[max_bytes = MAX_FILE_BODY_BYTES]
    pub(super) struct NewFile {
        ..commit: CommitFields,
        content: Present<Base64> = "Zm4gbWFpbigpIHt9Cg==",
        /// The id of the blob to replace. The change fails if the file has another one.
        sha: OrDefault<Text<40>> = "f328e4d9d04c31d0d70d16d21a07d1613be9d577",
    }
}

fields! {
    /// The deletion of a file.
    pub(super) struct RemovedFile {
        ..commit: CommitFields,
        /// The id of the blob to delete. The change fails if the file has another one.
        sha: OrDefault<Text<40>> = "f328e4d9d04c31d0d70d16d21a07d1613be9d577",
    }
}

fields! {
    /// Changes of files in one commit.
    #[max_bytes = MAX_FILE_BODY_BYTES]
    pub(super) struct NewCommit {
        ..commit: CommitFields,
        files: Required<Objects<ChangedFile>> =
            json!([{"operation": "move", "path": "src/main.rs", "from_path": "main.rs"}]),
    }
}

fields! {
    /// A change of one file.
    struct ChangedFile {
        /// The operation on the file.
        operation: Required<Word<ChangeOperation>> = "create",
        /// The content of the file in base64. Required to create or update it, optional to move it,
        /// not allowed to delete it.
        content: Optional<Base64> = "Zm4gbWFpbigpIHt9Cg==",
        /// The path from the root of the repository.
        path: Required<Text<4096>> = "src/main.rs",
        /// The current path of a file to move.
        from_path: OrDefault<Text<4096>> = "main.rs",
        /// The id of the blob to update, delete or move. The change fails if the file has another
        /// one.
        sha: OrDefault<Text<40>> = "f328e4d9d04c31d0d70d16d21a07d1613be9d577",
    }
}

words! {
    /// The operation on a file.
    enum ChangeOperation: FileOperation, "must be create, update, delete or move" {
        "create" = FileOperation::Create,
        "update" = FileOperation::Update,
        "delete" = FileOperation::Delete,
        "move" = FileOperation::Move,
    }
}

fields! {
    /// The author or committer of a new commit.
    struct CommitIdentity {
        /// The name. If name and address are empty, those of the caller are used.
        name: OrDefault<Text<255>> = "Bob",
        /// The e-mail address. If name and address are empty, those of the caller are used.
        email: OrDefault<Text<255>> = "bob@example.com",
        /// The time, from 1970 to 9999; the commit keeps its offset. The default is now.
        date: NonEmpty<OffsetTime> = "2026-01-02T03:04:05+01:00",
    }
}

shape! {
    /// A written file and its commit.
    #[derive(Clone, Debug, Serialize)]
    pub(super) struct FileWritten {
        content: Content,
        commit: Commit,
    }
}

shape! {
    /// The commit that deleted a file.
    #[derive(Clone, Debug, Serialize)]
    pub(super) struct FileRemoved {
        /// Always null.
        content: Option<Content>,
        commit: Commit,
    }
}

shape! {
    /// The created, updated and moved files, and their commit.
    #[derive(Clone, Debug, Serialize)]
    pub(super) struct FilesChanged {
        files: Vec<Content>,
        commit: Commit,
    }
}

impl CommitFields {
    /// Returns the branch that the body names for the commit, if any.
    fn requested_ref(&self) -> Option<String> {
        [&self.new_branch, &self.branch].into_iter().find(|name| !name.is_empty()).cloned()
    }
}

impl From<CommitIdentity> for git::CommitIdentity {
    fn from(CommitIdentity { name, email, date }: CommitIdentity) -> Self {
        let date_offset_minutes = date.map_or(0, |date| date.offset_minutes);
        Self { name, email, date: date.map(|date| date.time), date_offset_minutes }
    }
}

impl From<ChangedFile> for FileChange {
    fn from(ChangedFile { operation, content, path, from_path, sha }: ChangedFile) -> Self {
        Self {
            path: path.into_bytes(),
            operation: operation.into(),
            from_path: from_path.into_bytes(),
            content: content.map(Into::into),
            expected_blob_id: sha,
        }
    }
}

pub(super) async fn put(
    Authenticated(call): Authenticated,
    path: RepoPath,
    body: RequestBody<NewFile>,
) -> ApiResult<Created<FileWritten>> {
    let access = call.access(&path, operation::PUT_CONTENTS).await?;
    let (NewFile { commit, content, sha }, _permit) = read_of_file(&call, &path, body).await?;
    let requested_ref = commit.requested_ref();
    let CommitFields { message, branch, new_branch, author, committer } = commit;
    let access = call.confirm(access, operation::PUT_CONTENTS).await?;
    let request = PutContentsRequest {
        repository_id: access.id,
        path: path.rest,
        content: content.into(),
        message,
        branch,
        new_branch,
        expected_blob_id: sha,
        author: author.map(Into::into),
        committer: committer.map(Into::into),
    };
    let request = with_timeout(call.request_with_grant(&access.grant, request), LONG_CALL_DEADLINE);
    let response = call.clients.git().put_contents(request).await.map_err(write_error)?.into_inner();
    let commit = convert_commit(&call, &access, response.commit).await?;
    let requested_ref = requested_ref.as_deref().map(str::as_bytes);
    let location = EntryLocation { urls: &access.urls, display_ref: &response.branch, requested_ref };
    let content = Content::new(require(response.entry, "entry")?, &location)?;
    Ok(Created::at(content.url.clone(), FileWritten { content, commit }))
}

pub(super) async fn remove(
    Authenticated(call): Authenticated,
    path: RepoPath,
    body: RequestBody<RemovedFile>,
) -> ApiResult<Json<FileRemoved>> {
    let access = call.access(&path, operation::DELETE_CONTENTS).await?;
    let (RemovedFile { commit, sha }, _permit) = read_of_file(&call, &path, body).await?;
    let CommitFields { message, branch, new_branch, author, committer } = commit;
    let access = call.confirm(access, operation::DELETE_CONTENTS).await?;
    let request = DeleteContentsRequest {
        repository_id: access.id,
        path: path.rest,
        message,
        branch,
        new_branch,
        expected_blob_id: sha,
        author: author.map(Into::into),
        committer: committer.map(Into::into),
    };
    let request = with_timeout(call.request_with_grant(&access.grant, request), LONG_CALL_DEADLINE);
    let response = call.clients.git().delete_contents(request).await?.into_inner();
    let commit = convert_commit(&call, &access, response.commit).await?;
    Ok(Json(FileRemoved { content: None, commit }))
}

pub(super) async fn change(
    Authenticated(call): Authenticated,
    path: RepoPath,
    body: RequestBody<NewCommit>,
) -> ApiResult<Created<FilesChanged>> {
    let access = call.access(&path, operation::CHANGE_FILES).await?;
    let read = body.read_with(&call.body_limits, |object, mistakes| {
        note_unsupported(object, mistakes);
        NewCommit::read(object, mistakes)
    });
    let (NewCommit { commit, files }, _permit) = read.await?;
    let requested_ref = commit.requested_ref();
    let CommitFields { message, branch, new_branch, author, committer } = commit;
    let access = call.confirm(access, operation::CHANGE_FILES).await?;
    let request = ChangeFilesRequest {
        repository_id: access.id,
        branch,
        new_branch,
        message,
        author: author.map(Into::into),
        committer: committer.map(Into::into),
        files: files.into_iter().map(Into::into).collect(),
    };
    let request = with_timeout(call.request_with_grant(&access.grant, request), LONG_CALL_DEADLINE);
    let response = call.clients.git().change_files(request).await.map_err(write_error)?.into_inner();
    let made = require(response.commit, "commit")?;
    // The created resource is the commit, not the files.
    let url = access.urls.commit(&made.id);
    let commit = convert_commit(&call, &access, Some(made)).await?;
    let requested_ref = requested_ref.as_deref().map(str::as_bytes);
    let location = EntryLocation { urls: &access.urls, display_ref: &response.branch, requested_ref };
    let files = response.entries.into_iter().map(|entry| Content::new(entry, &location));
    Ok(Created::at(url, FilesChanged { files: files.collect::<Result<_, _>>()?, commit }))
}

/// Reads the body of a change of the file in the path. 422 if the path names no file.
async fn read_of_file<T: Fields>(call: &ApiCall, path: &RepoPath, body: RequestBody<T>) -> ApiResult<(T, BodyPermit)> {
    let read = body.read_with(&call.body_limits, |object, mistakes| {
        note_unsupported(object, mistakes);
        let read = T::read(object, mistakes);
        // Report invalid base64 after the mistakes in other fields.
        mistakes.move_last("content", "invalid");
        if path.rest.is_empty() {
            mistakes.note("path", "required", "is required");
        }
        read
    });
    read.await
}

/// Reports Gitea's fields that are not supported and would change the commit. Empty values and
/// times in year 1 are fine: some clients send every field.
fn note_unsupported(object: &JsonObject, mistakes: &mut Mistakes) {
    let is_given = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty() && !text.starts_with("0001-"));
    if object.get("from_path").is_some_and(is_given) {
        mistakes.note("from_path", "invalid", "is only allowed in `files` of `POST …/contents`");
    }
    if object.get("signoff") == Some(&Value::Bool(true)) {
        mistakes.note("signoff", "invalid", "is not supported");
    }
    for (person, name) in [("author", "dates.author"), ("committer", "dates.committer")] {
        if object.get("dates").and_then(|dates| dates.get(person)).is_some_and(is_given) {
            mistakes.note(name, "invalid", &format!("is not supported: use `{person}.date`"));
        }
    }
}

/// Converts the commit of a response, with its accounts.
async fn convert_commit(
    call: &ApiCall,
    access: &ResolvedAccess,
    commit: Option<git::Commit>,
) -> Result<Commit, ApiError> {
    let commit = require(commit, "commit")?;
    let accounts = call.accounts_by_email_beside_caller(access, Emails::of([&commit])).await?;
    Ok(Commit::new(commit, &accounts, &access.urls)?)
}

/// Converts a status of git-svc. If the message is too long for git-svc, a file is too large.
fn write_error(status: tonic::Status) -> ApiError {
    if status.code() == tonic::Code::OutOfRange { ApiError::too_large() } else { status.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_too_long_for_git_svc_is_413() {
        assert_eq!(write_error(tonic::Status::out_of_range("decoded message length too large")).status.as_u16(), 413);
        assert_eq!(write_error(tonic::Status::unavailable("away")).status.as_u16(), 503);
    }
}
