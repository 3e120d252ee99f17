//! Changes of files, one commit per request.

use ferrite_api_types::convert::{MissingField, require};
use ferrite_api_types::{shape, word_shape};
use ferrite_proto::git::{
    self, ChangeFilesRequest, CreateContentsRequest, DeleteContentsRequest, FileChange, FileOperation,
    PutContentsRequest,
};
use ferrite_proto::operation;
use ferrite_rpc::grpc::with_timeout;
use serde::Serialize;
use serde_json::{Value, json};

use super::commit::FileCommit;
use super::{Content, EntryLocation};
use crate::api::access::{Emails, ResolvedAccess};
use crate::api::call::{ApiCall, Authenticated};
use crate::api::git::commits::Commit;
use crate::http::body_limits::{BodyPermit, MAX_FILE_BODY_BYTES};
use crate::http::error::{ApiError, ApiResult};
use crate::http::path::RepoPath;
use crate::http::request::{
    Base64, Fields, Flag, JsonObject, Kind, Mistakes, NonEmpty, Object, Objects, OffsetTime, Optional, OrDefault,
    Present, RequestBody, Required, Text, Word, fields,
};
use crate::http::response::{Created, Either, Json};
use crate::http::words::words;
use crate::upstream::clients::LONG_CALL_DEADLINE;

/// Maximum commit message: that of a commit of 1 MiB, minus 16 KiB for the rest of the commit.
const MAX_MESSAGE: usize = (1024 - 16) * 1024;

fields! {
    /// The commit fields that every change has.
    struct CommitFields {
        /// The commit message. The default names the files, as in `Add src/main.rs`.
        message: OrDefault<Text<MAX_MESSAGE>> = "Change a program.",
        branch: OrDefault<Text<1000>> = "main",
        new_branch: OrDefault<Text<1000>> = "feature/one",
        author: Optional<Object<CommitIdentity>>,
        committer: Optional<Object<CommitIdentity>>,
        /// The times of the commit, in place of `author.date` and `committer.date`.
        dates: Optional<Object<CommitDates>>,
        signoff: OrDefault<Flag> = true,
    }
}

fields! {
    /// A file to create.
    #[max_bytes = MAX_FILE_BODY_BYTES]
    pub(super) struct NewFile {
        ..commit: CommitFields,
        content: Present<Base64> = "Zm4gbWFpbigpIHt9Cg==",
    }
}

fields! {
    /// A file to write.
    #[max_bytes = MAX_FILE_BODY_BYTES]
    pub(super) struct WrittenFile {
        ..commit: CommitFields,
        /// The content of the file in base64. Required unless `from_path` is set; a file that moves
        /// without one keeps its content.
        content: Optional<Base64> = "Zm4gbWFpbigpIHt9Cg==",
        /// The id of the blob to replace or move. The change fails if the file has another one.
        sha: OrDefault<Text<40>> = "f328e4d9d04c31d0d70d16d21a07d1613be9d577",
        from_path: OrDefault<Text<4096>> = "main.rs",
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
        /// The operation on the file. `upload` creates or updates it, `rename` moves it unchanged.
        operation: Required<Word<ChangeOperation>> = "create",
        /// The content of the file in base64. Required to create, update or upload it, optional to
        /// move it, not allowed to rename or delete it.
        content: Optional<Base64> = "Zm4gbWFpbigpIHt9Cg==",
        /// The path from the root of the repository.
        path: Required<Text<4096>> = "src/main.rs",
        /// The current path of a file to move or rename. A file that is created, updated or uploaded
        /// moves from there too, with its new content.
        from_path: OrDefault<Text<4096>> = "main.rs",
        /// The id of the blob to replace, delete or move. The change fails if the file has another
        /// one.
        sha: OrDefault<Text<40>> = "f328e4d9d04c31d0d70d16d21a07d1613be9d577",
    }
}

words! {
    /// The operation on a file.
    enum ChangeOperation: FileOperation, "must be create, update, upload, delete, move or rename" {
        "create" = FileOperation::Create,
        "update" = FileOperation::Update,
        "upload" = FileOperation::Upload,
        "delete" = FileOperation::Delete,
        "move" = FileOperation::Move,
        "rename" = FileOperation::Rename,
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

fields! {
    /// The times of a commit, from 1970 to 9999; the commit keeps their offsets.
    struct CommitDates {
        /// The time of the author. The default is now.
        author: NonEmpty<OffsetTime> = "2026-01-02T03:04:05+01:00",
        /// The time of the committer. The default is now.
        committer: NonEmpty<OffsetTime> = "2026-01-02T03:04:05+01:00",
    }
}

word_shape! {
    /// Why a commit is not verified.
    #[derive(Clone, Copy, Debug)]
    enum VerificationReason {
        /// It has no signature.
        NotSigned = "gpg.error.not_signed_commit",
    }
}

shape! {
    /// Whether a commit has a valid signature. Commits by the API have none.
    #[derive(Clone, Copy, Debug, Serialize)]
    struct Verification {
        verified: bool,
        reason: VerificationReason,
    }
}

const UNSIGNED: Verification = Verification { verified: false, reason: VerificationReason::NotSigned };

shape! {
    /// A written file and its commit.
    #[derive(Clone, Debug, Serialize)]
    pub(super) struct FileWritten {
        content: Content,
        commit: FileCommit,
        verification: Verification,
    }
}

shape! {
    /// The commit that deleted a file.
    #[derive(Clone, Debug, Serialize)]
    pub(super) struct FileRemoved {
        /// Always null.
        content: Option<Content>,
        commit: FileCommit,
        verification: Verification,
    }
}

shape! {
    /// The created, updated and moved files, and their commit.
    #[derive(Clone, Debug, Serialize)]
    pub(super) struct FilesChanged {
        files: Vec<Content>,
        commit: FileCommit,
        verification: Verification,
    }
}

/// The commit fields as git-svc takes them.
struct Draft {
    message: String,
    branch: String,
    new_branch: String,
    author: Option<git::CommitIdentity>,
    committer: Option<git::CommitIdentity>,
    signoff: bool,
}

impl CommitFields {
    /// Returns the branch that the body names for the commit, if any.
    fn requested_ref(&self) -> Option<String> {
        [&self.new_branch, &self.branch].into_iter().find(|name| !name.is_empty()).cloned()
    }
}

impl From<CommitFields> for Draft {
    fn from(fields: CommitFields) -> Self {
        let CommitFields { message, branch, new_branch, author, committer, dates, signoff } = fields;
        let CommitDates { author: authored, committer: committed } =
            dates.unwrap_or(CommitDates { author: None, committer: None });
        let (author, committer) = (with_date(author, authored), with_date(committer, committed));
        Self { message, branch, new_branch, author, committer, signoff }
    }
}

/// Sets the date of a person, which may be the caller.
fn with_date(person: Option<CommitIdentity>, date: Option<OffsetTime>) -> Option<git::CommitIdentity> {
    let person = person.map(git::CommitIdentity::from);
    let Some(date) = date else { return person };
    let (time, date_offset_minutes) = (Some(date.time), date.offset_minutes);
    Some(git::CommitIdentity { date: time, date_offset_minutes, ..person.unwrap_or_default() })
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

pub(super) async fn create(
    Authenticated(call): Authenticated,
    path: RepoPath,
    body: RequestBody<NewFile>,
) -> ApiResult<Created<FileWritten>> {
    let access = call.access(&path, operation::CREATE_CONTENTS).await?;
    let (NewFile { commit, content }, _permit) = read_of_file(&call, &path, body, |_, _| {}).await?;
    let requested_ref = commit.requested_ref();
    let Draft { message, branch, new_branch, author, committer, signoff } = commit.into();
    let access = call.confirm(access, operation::CREATE_CONTENTS).await?;
    let request = CreateContentsRequest {
        repository_id: access.id,
        path: path.rest,
        content: content.into(),
        message,
        branch,
        new_branch,
        author,
        committer,
        signoff,
    };
    let request = with_timeout(call.request_with_grant(&access.grant, request), LONG_CALL_DEADLINE);
    let response = call.clients.git().create_contents(request).await.map_err(write_error)?.into_inner();
    let commit = convert_commit(&call, &access, response.commit).await?;
    let content = written_content(&access, response.entry, &response.branch, requested_ref.as_deref())?;
    Ok(Created::at(content.url.clone(), FileWritten { content, commit, verification: UNSIGNED }))
}

pub(super) async fn put(
    Authenticated(call): Authenticated,
    path: RepoPath,
    body: RequestBody<WrittenFile>,
) -> ApiResult<Either<Created<FileWritten>, Json<FileWritten>>> {
    let access = call.access(&path, operation::PUT_CONTENTS).await?;
    let (file, _permit) = read_of_file(&call, &path, body, note_content).await?;
    let WrittenFile { commit, content, sha, from_path } = file;
    let requested_ref = commit.requested_ref();
    let Draft { message, branch, new_branch, author, committer, signoff } = commit.into();
    let access = call.confirm(access, operation::PUT_CONTENTS).await?;
    let request = PutContentsRequest {
        repository_id: access.id,
        path: path.rest,
        content: content.map(Into::into),
        message,
        branch,
        new_branch,
        expected_blob_id: sha,
        author,
        committer,
        from_path: from_path.into_bytes(),
        signoff,
    };
    let request = with_timeout(call.request_with_grant(&access.grant, request), LONG_CALL_DEADLINE);
    let response = call.clients.git().put_contents(request).await.map_err(write_error)?.into_inner();
    let commit = convert_commit(&call, &access, response.commit).await?;
    let content = written_content(&access, response.entry, &response.branch, requested_ref.as_deref())?;
    let written = FileWritten { content, commit, verification: UNSIGNED };
    if response.is_update {
        return Ok(Either::Second(Json(written)));
    }
    Ok(Either::First(Created::at(written.content.url.clone(), written)))
}

pub(super) async fn remove(
    Authenticated(call): Authenticated,
    path: RepoPath,
    body: RequestBody<RemovedFile>,
) -> ApiResult<Json<FileRemoved>> {
    let access = call.access(&path, operation::DELETE_CONTENTS).await?;
    let (RemovedFile { commit, sha }, _permit) = read_of_file(&call, &path, body, |_, _| {}).await?;
    let Draft { message, branch, new_branch, author, committer, signoff } = commit.into();
    let access = call.confirm(access, operation::DELETE_CONTENTS).await?;
    let request = DeleteContentsRequest {
        repository_id: access.id,
        path: path.rest,
        message,
        branch,
        new_branch,
        expected_blob_id: sha,
        author,
        committer,
        signoff,
    };
    let request = with_timeout(call.request_with_grant(&access.grant, request), LONG_CALL_DEADLINE);
    let response = call.clients.git().delete_contents(request).await?.into_inner();
    let commit = convert_commit(&call, &access, response.commit).await?;
    Ok(Json(FileRemoved { content: None, commit, verification: UNSIGNED }))
}

pub(super) async fn change(
    Authenticated(call): Authenticated,
    path: RepoPath,
    body: RequestBody<NewCommit>,
) -> ApiResult<Created<FilesChanged>> {
    let access = call.access(&path, operation::CHANGE_FILES).await?;
    let read = body.read_with(&call.body_limits, |object, mistakes| {
        note_dates(object, mistakes);
        NewCommit::read(object, mistakes)
    });
    let (NewCommit { commit, files }, _permit) = read.await?;
    let requested_ref = commit.requested_ref();
    let Draft { message, branch, new_branch, author, committer, signoff } = commit.into();
    let access = call.confirm(access, operation::CHANGE_FILES).await?;
    let request = ChangeFilesRequest {
        repository_id: access.id,
        branch,
        new_branch,
        message,
        author,
        committer,
        signoff,
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
    let files = files.collect::<Result<_, _>>()?;
    Ok(Created::at(url, FilesChanged { files, commit, verification: UNSIGNED }))
}

/// Reads the body of a change of the file in the path. `note` reports further mistakes. 422 if the
/// path names no file.
async fn read_of_file<T: Fields>(
    call: &ApiCall,
    path: &RepoPath,
    body: RequestBody<T>,
    note: impl FnOnce(&JsonObject, &mut Mistakes),
) -> ApiResult<(T, BodyPermit)> {
    let read = body.read_with(&call.body_limits, |object, mistakes| {
        note_dates(object, mistakes);
        note(object, mistakes);
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

/// Reports times that are given twice.
fn note_dates(object: &JsonObject, mistakes: &mut Mistakes) {
    let has_date = |part: &str, name: &str| {
        let date = object.get(part).and_then(|part| part.get(name));
        date.is_some_and(|date| !date.is_null() && !OffsetTime::is_empty(date))
    };
    for person in ["author", "committer"] {
        if has_date(person, "date") && has_date("dates", person) {
            let message = format!("must not be set together with `{person}.date`");
            mistakes.note(&format!("dates.{person}"), "invalid", &message);
        }
    }
}

/// Reports that the content is missing. A file that moves can keep its content.
fn note_content(object: &JsonObject, mistakes: &mut Mistakes) {
    let is_moved = object.get("from_path").and_then(Value::as_str).is_some_and(|path| !path.is_empty());
    if !is_moved && object.get("content").is_none_or(Value::is_null) {
        mistakes.note("content", "required", "is required");
    }
}

/// Converts the written file of a response.
fn written_content(
    access: &ResolvedAccess,
    entry: Option<git::TreeEntry>,
    display_ref: &[u8],
    requested_ref: Option<&str>,
) -> Result<Content, MissingField> {
    let location = EntryLocation { urls: &access.urls, display_ref, requested_ref: requested_ref.map(str::as_bytes) };
    Content::new(require(entry, "entry")?, &location)
}

/// Converts the commit of a response, with its accounts.
async fn convert_commit(
    call: &ApiCall,
    access: &ResolvedAccess,
    commit: Option<git::Commit>,
) -> Result<FileCommit, ApiError> {
    let commit = require(commit, "commit")?;
    let accounts = call.accounts_by_email_beside_caller(access, Emails::of([&commit])).await?;
    Ok(Commit::new(commit, &accounts, &access.urls)?.into())
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
