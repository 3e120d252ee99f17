//! Files and directories: read, and changed by one commit for each request.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ferrite_proto::git::{
    self, ChangeFilesRequest, CommitIdentity, DeleteContentsRequest, FileChange, FileOperation, GetContentsRequest,
    PutContentsRequest,
};
use ferrite_proto::operation;
use ferrite_rpc::grpc::with_timeout;

use super::response::read_error;
use crate::api::access::{Emails, ResolvedAccess};
use crate::api::call::{ApiCall, Authenticated, routes};
use crate::dto::{Commit, Content, Contents, EntryLocation, FileRemoved, FileWritten, FilesChanged, require};
use crate::http::body::JsonBody;
use crate::http::body_limits::{MAX_FILE_BODY_BYTES, MAX_JSON_BYTES};
use crate::http::error::{ApiError, ApiResult};
use crate::http::fields::FieldReader;
use crate::http::json;
use crate::http::path::RepoPath;
use crate::http::query::Query;
use crate::upstream::clients::LONG_CALL_DEADLINE;

routes! {
    "/api/v1/repos/{owner}/{repo}/contents" =>
        get get as operation::GET_CONTENTS,
        put put as operation::PUT_CONTENTS,
        post change as operation::CHANGE_FILES,
        delete remove as operation::DELETE_CONTENTS;
    "/api/v1/repos/{owner}/{repo}/contents/{*file}" =>
        get get as operation::GET_CONTENTS,
        put put as operation::PUT_CONTENTS,
        delete remove as operation::DELETE_CONTENTS;
}

async fn get(Authenticated(call): Authenticated, path: RepoPath, query: Query) -> ApiResult {
    let access = call.access(&path, operation::GET_CONTENTS).await?;
    let requested_ref = query.bytes("ref").filter(|revision| !revision.is_empty());
    let revision = requested_ref.clone().unwrap_or_default();
    let request = GetContentsRequest { repository_id: access.id, revision, path: path.rest };
    let response = call.clients.git().get_contents(call.request_with_grant(&access.grant, request)).await;
    Ok(json::ok(Contents::new(response.map_err(read_error)?.into_inner(), &access.urls, requested_ref)?))
}

async fn put(Authenticated(call): Authenticated, path: RepoPath, body: JsonBody) -> ApiResult {
    let access = call.access(&path, operation::PUT_CONTENTS).await?;
    let decode = |fields: &mut FieldReader| decode(fields, access.id, path.rest.clone());
    let (request, _permit) = body.decode(&call.body_limits, MAX_FILE_BODY_BYTES, decode).await?;
    let access = call.confirm(access, operation::PUT_CONTENTS).await?;
    let requested_ref = Some(request.branch.clone()).filter(|branch| !branch.is_empty());
    let request = with_timeout(call.request_with_grant(&access.grant, request), LONG_CALL_DEADLINE);
    let response = call.clients.git().put_contents(request).await.map_err(write_error)?.into_inner();
    let commit = convert_commit(&call, &access, response.commit).await?;
    let requested_ref = requested_ref.as_deref().map(str::as_bytes);
    let location = EntryLocation { urls: &access.urls, display_ref: &response.branch, requested_ref };
    Ok(json::created(FileWritten { content: Content::new(require(response.entry, "entry")?, &location)?, commit }))
}

async fn remove(Authenticated(call): Authenticated, path: RepoPath, body: JsonBody) -> ApiResult {
    let access = call.access(&path, operation::DELETE_CONTENTS).await?;
    let decode = |fields: &mut FieldReader| {
        let commit = CommitFields::read(fields);
        let expected_blob_id = fields.text_or_empty("sha");
        require_path(fields, &path.rest);
        DeleteContentsRequest {
            repository_id: access.id,
            path: path.rest.clone(),
            message: commit.message,
            branch: commit.branch,
            expected_blob_id,
            author: commit.author,
            committer: commit.committer,
        }
    };
    let (request, _permit) = body.decode(&call.body_limits, MAX_JSON_BYTES, decode).await?;
    let access = call.confirm(access, operation::DELETE_CONTENTS).await?;
    let request = with_timeout(call.request_with_grant(&access.grant, request), LONG_CALL_DEADLINE);
    let response = call.clients.git().delete_contents(request).await?.into_inner();
    let commit = convert_commit(&call, &access, response.commit).await?;
    Ok(json::ok(FileRemoved { content: None, commit }))
}

async fn change(Authenticated(call): Authenticated, path: RepoPath, body: JsonBody) -> ApiResult {
    let access = call.access(&path, operation::CHANGE_FILES).await?;
    let decode = |fields: &mut FieldReader| decode_changes(fields, access.id);
    let (request, _permit) = body.decode(&call.body_limits, MAX_FILE_BODY_BYTES, decode).await?;
    let access = call.confirm(access, operation::CHANGE_FILES).await?;
    let requested_ref = [&request.new_branch, &request.branch].into_iter().find(|name| !name.is_empty()).cloned();
    let request = with_timeout(call.request_with_grant(&access.grant, request), LONG_CALL_DEADLINE);
    let response = call.clients.git().change_files(request).await.map_err(write_error)?.into_inner();
    let commit = convert_commit(&call, &access, response.commit).await?;
    let requested_ref = requested_ref.as_deref().map(str::as_bytes);
    let location = EntryLocation { urls: &access.urls, display_ref: &response.branch, requested_ref };
    let files = response.entries.into_iter().map(|entry| Content::new(entry, &location));
    Ok(json::created(FilesChanged { files: files.collect::<Result<_, _>>()?, commit }))
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

/// Converts a status of git-svc. A message that is too long for git-svc has a file that is too large.
fn write_error(status: tonic::Status) -> ApiError {
    if status.code() == tonic::Code::OutOfRange { ApiError::too_large() } else { status.into() }
}

/// The fields about the commit, which every body has.
struct CommitFields {
    message: String,
    branch: String,
    author: Option<CommitIdentity>,
    committer: Option<CommitIdentity>,
}

impl CommitFields {
    fn read(fields: &mut FieldReader) -> Self {
        Self {
            message: fields.required_non_empty("message"),
            branch: fields.text_or_empty("branch"),
            author: identity(fields, "author"),
            committer: identity(fields, "committer"),
        }
    }
}

fn identity(fields: &mut FieldReader, name: &str) -> Option<CommitIdentity> {
    fields.optional_object(name, |identity| {
        let (name, email) = (identity.text_or_empty("name"), identity.text_or_empty("email"));
        let date = identity.optional_offset_time("date");
        CommitIdentity {
            name,
            email,
            date: date.map(|date| date.time),
            date_offset_minutes: date.map_or(0, |date| date.offset_minutes),
        }
    })
}

fn require_path(fields: &mut FieldReader, path: &[u8]) {
    if path.is_empty() {
        fields.add_error("path", "required", "is required");
    }
}

fn decode(fields: &mut FieldReader, repository_id: i64, path: Vec<u8>) -> PutContentsRequest {
    let commit = CommitFields::read(fields);
    let encoded = fields.required("content");
    let expected_blob_id = fields.text_or_empty("sha");
    let content = content(fields, encoded).unwrap_or_default();
    require_path(fields, &path);
    PutContentsRequest {
        repository_id,
        path,
        content: content.into(),
        message: commit.message,
        branch: commit.branch,
        expected_blob_id,
        author: commit.author,
        committer: commit.committer,
    }
}

fn decode_changes(fields: &mut FieldReader, repository_id: i64) -> ChangeFilesRequest {
    let commit = CommitFields::read(fields);
    let new_branch = fields.text_or_empty("new_branch");
    ChangeFilesRequest {
        repository_id,
        branch: commit.branch,
        new_branch,
        message: commit.message,
        author: commit.author,
        committer: commit.committer,
        files: fields.required_objects("files", file),
    }
}

fn file(fields: &mut FieldReader) -> FileChange {
    let operation = match fields.required_non_empty("operation").as_str() {
        "create" => FileOperation::Create,
        "update" => FileOperation::Update,
        "delete" => FileOperation::Delete,
        "move" => FileOperation::Move,
        other => {
            // An operation that is missing or not a text is noted already.
            if !other.is_empty() {
                fields.add_error("operation", "unknown", "must be create, update, delete or move");
            }
            FileOperation::Unspecified
        }
    };
    let content = fields.optional_text("content").and_then(|encoded| content(fields, encoded));
    FileChange {
        path: fields.required_non_empty("path").into_bytes(),
        operation: operation.into(),
        from_path: fields.text_or_empty("from_path").into_bytes(),
        content: content.map(Into::into),
        expected_blob_id: fields.text_or_empty("sha"),
    }
}

/// Returns the content of a file, or notes a mistake in its field.
fn content(fields: &mut FieldReader, encoded: String) -> Option<Vec<u8>> {
    let content = decode_base64(encoded);
    if content.is_none() {
        fields.add_error("content", "invalid", "must be base64 in the standard alphabet, with padding");
    }
    content
}

/// Decodes base64, with or without line breaks.
fn decode_base64(text: String) -> Option<Vec<u8>> {
    let mut encoded = text.into_bytes();
    encoded.retain(|byte| !matches!(byte, b'\r' | b'\n'));
    STANDARD.decode(encoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_too_long_for_git_svc_is_413() {
        assert_eq!(write_error(tonic::Status::out_of_range("decoded message length too large")).status.as_u16(), 413);
        assert_eq!(write_error(tonic::Status::unavailable("away")).status.as_u16(), 503);
    }

    #[test]
    fn base64_has_padding_and_may_have_line_breaks() {
        assert_eq!(decode_base64("aGVs\r\nbG8K\n".into()), Some(b"hello\n".to_vec()));
        assert_eq!(decode_base64(String::new()), Some(Vec::new()));
        for wrong in ["aGVsbG8", "a b=", "!!!!", "-_-_"] {
            assert_eq!(decode_base64(wrong.into()), None, "{wrong}");
        }
    }
}
