//! Files: read, and changed one commit at a time.

use axum::extract::State;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ferrite_proto::git::{
    ChangeFilesRequest, CommitIdentity, DeleteContentsRequest, FileChange, FileOperation, GetContentsRequest,
    PutContentsRequest,
};
use ferrite_proto::operation;

use super::access::Emails;
use crate::auth::{Signed, within};
use crate::dto::{Commit, Content, Contents, FileRemoved, FileWritten, FilesChanged, Place, present};
use crate::http::body::{FILE_BYTES, Fields, JSON_BYTES, Payload, Slot};
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::page::Query;
use crate::http::path::RepoPath;
use crate::http::routes::routes;
use crate::state::Gateway;
use crate::upstream::clients::LONG_DEADLINE;

const BASE64: &str = "must be base64 in the standard alphabet, with padding";

routes! { Gateway:
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

async fn get(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: RepoPath,
    query: Query,
) -> Result<Response, ApiError> {
    let access = gateway.access(&call, &path, operation::GET_CONTENTS).await?;
    let asked = query.bytes("ref").filter(|revision| !revision.is_empty());
    let revision = asked.clone().unwrap_or_default();
    let request = GetContentsRequest { repository_id: access.id, revision, path: path.rest };
    let answer = gateway.clients.git().get_contents(call.granted(&access.grant, request)).await?.into_inner();
    Ok(json::ok(Contents::new(answer, &access.urls, asked.as_deref())?))
}

async fn put(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: RepoPath,
    payload: Payload,
) -> Result<Response, ApiError> {
    let access = gateway.access(&call, &path, operation::PUT_CONTENTS).await?;
    let fields = payload.fields(&gateway, FILE_BYTES).await?;
    let (request, _slot) = decode(fields, access.id, path.rest)?;
    let asked = Some(request.branch.clone()).filter(|branch| !branch.is_empty());
    let request = within(call.granted(&access.grant, request), LONG_DEADLINE);
    let answer = gateway.clients.git().put_contents(request).await.map_err(refused)?.into_inner();
    let commit = present(answer.commit, "commit")?;
    let accounts = gateway.accounts_by_email(&call, Emails::of([&commit])).await?;
    let asked = asked.as_deref().map(str::as_bytes);
    let place = Place { urls: &access.urls, display_ref: &answer.branch, asked };
    Ok(json::created(FileWritten {
        content: Content::new(present(answer.entry, "entry")?, &place)?,
        commit: Commit::new(commit, &accounts, &access.urls)?,
    }))
}

async fn remove(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: RepoPath,
    payload: Payload,
) -> Result<Response, ApiError> {
    let access = gateway.access(&call, &path, operation::DELETE_CONTENTS).await?;
    let mut fields = payload.fields(&gateway, JSON_BYTES).await?;
    let head = Head::take(&mut fields);
    let expected_blob_id = fields.text_or_empty("sha");
    refuse_root(&mut fields, &path.rest);
    let _slot = fields.finish()?;
    let request = DeleteContentsRequest {
        repository_id: access.id,
        path: path.rest,
        message: head.message,
        branch: head.branch,
        expected_blob_id,
        author: head.author,
        committer: head.committer,
    };
    let request = within(call.granted(&access.grant, request), LONG_DEADLINE);
    let answer = gateway.clients.git().delete_contents(request).await?.into_inner();
    let commit = present(answer.commit, "commit")?;
    let accounts = gateway.accounts_by_email(&call, Emails::of([&commit])).await?;
    Ok(json::ok(FileRemoved { content: None, commit: Commit::new(commit, &accounts, &access.urls)? }))
}

async fn change(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: RepoPath,
    payload: Payload,
) -> Result<Response, ApiError> {
    let access = gateway.access(&call, &path, operation::CHANGE_FILES).await?;
    let fields = payload.fields(&gateway, FILE_BYTES).await?;
    let (request, _slot) = decode_changes(fields, access.id)?;
    let asked = [&request.new_branch, &request.branch].into_iter().find(|name| !name.is_empty()).cloned();
    let request = within(call.granted(&access.grant, request), LONG_DEADLINE);
    let answer = gateway.clients.git().change_files(request).await.map_err(refused)?.into_inner();
    let commit = present(answer.commit, "commit")?;
    let accounts = gateway.accounts_by_email(&call, Emails::of([&commit])).await?;
    let asked = asked.as_deref().map(str::as_bytes);
    let place = Place { urls: &access.urls, display_ref: &answer.branch, asked };
    let files = answer.entries.into_iter().map(|entry| Content::new(entry, &place));
    Ok(json::created(FilesChanged {
        files: files.collect::<Result<_, _>>()?,
        commit: Commit::new(commit, &accounts, &access.urls)?,
    }))
}

/// A message that git-svc does not take for its length is the client's file.
fn refused(status: tonic::Status) -> ApiError {
    if status.code() == tonic::Code::OutOfRange { ApiError::too_large() } else { status.into() }
}

/// What every body says about the commit to make.
struct Head {
    message: String,
    branch: String,
    author: Option<CommitIdentity>,
    committer: Option<CommitIdentity>,
}

impl Head {
    fn take(fields: &mut Fields) -> Self {
        Self {
            message: fields.required("message"),
            branch: fields.text_or_empty("branch"),
            author: identity(fields, "author"),
            committer: identity(fields, "committer"),
        }
    }
}

fn identity(fields: &mut Fields, name: &str) -> Option<CommitIdentity> {
    fields.optional_object(name, |person| CommitIdentity {
        name: person.text_or_empty("name"),
        email: person.text_or_empty("email"),
        date: person.optional_time("date"),
    })
}

fn refuse_root(fields: &mut Fields, path: &[u8]) {
    if path.is_empty() {
        fields.refuse("path", "required", "is required");
    }
}

fn decode(mut fields: Fields, repository_id: i64, path: Vec<u8>) -> Result<(PutContentsRequest, Slot), ApiError> {
    let head = Head::take(&mut fields);
    let encoded = fields.present("content");
    let expected_blob_id = fields.text_or_empty("sha");
    let content = base64(encoded).unwrap_or_else(|| {
        fields.refuse("content", "invalid", BASE64);
        Vec::new()
    });
    refuse_root(&mut fields, &path);
    let slot = fields.finish()?;
    let request = PutContentsRequest {
        repository_id,
        path,
        content: content.into(),
        message: head.message,
        branch: head.branch,
        expected_blob_id,
        author: head.author,
        committer: head.committer,
    };
    Ok((request, slot))
}

fn decode_changes(mut fields: Fields, repository_id: i64) -> Result<(ChangeFilesRequest, Slot), ApiError> {
    let head = Head::take(&mut fields);
    let new_branch = fields.text_or_empty("new_branch");
    let files = fields.required_objects("files", file);
    let slot = fields.finish()?;
    let request = ChangeFilesRequest {
        repository_id,
        branch: head.branch,
        new_branch,
        message: head.message,
        author: head.author,
        committer: head.committer,
        files,
    };
    Ok((request, slot))
}

fn file(fields: &mut Fields) -> FileChange {
    let operation = match fields.required("operation").as_str() {
        "create" => FileOperation::Create,
        "update" => FileOperation::Update,
        "delete" => FileOperation::Delete,
        "move" => FileOperation::Move,
        other => {
            // That it is missing, or no text, was noted before.
            if !other.is_empty() {
                fields.refuse("operation", "unknown", "must be create, update, delete or move");
            }
            FileOperation::Unspecified
        }
    };
    let content = fields.optional_text("content").and_then(|encoded| {
        let content = base64(encoded);
        if content.is_none() {
            fields.refuse("content", "invalid", BASE64);
        }
        content
    });
    FileChange {
        path: fields.required("path").into_bytes(),
        operation: operation.into(),
        from_path: fields.text_or_empty("from_path").into_bytes(),
        content: content.map(Into::into),
        expected_blob_id: fields.text_or_empty("sha"),
    }
}

/// The bytes that `text` stands for; line breaks inside are allowed.
fn base64(text: String) -> Option<Vec<u8>> {
    let mut encoded = text.into_bytes();
    encoded.retain(|byte| !matches!(byte, b'\r' | b'\n'));
    STANDARD.decode(encoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_too_large_for_git_svc_is_too_large_for_us() {
        assert_eq!(refused(tonic::Status::out_of_range("decoded message length too large")).status.as_u16(), 413);
        assert_eq!(refused(tonic::Status::unavailable("away")).status.as_u16(), 503);
    }

    #[test]
    fn base64_has_padding_and_may_have_line_breaks() {
        assert_eq!(base64("aGVs\r\nbG8K\n".into()), Some(b"hello\n".to_vec()));
        assert_eq!(base64(String::new()), Some(Vec::new()));
        for wrong in ["aGVsbG8", "a b=", "!!!!", "-_-_"] {
            assert_eq!(base64(wrong.into()), None, "{wrong}");
        }
    }
}
