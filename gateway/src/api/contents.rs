use axum::extract::State;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ferrite_proto::git::{GetContentsRequest, PutContentsRequest};
use ferrite_proto::operation;

use super::access::Emails;
use crate::auth::{Signed, within};
use crate::body::{FILE_BYTES, Fields, Payload, Slot};
use crate::clients::LONG_DEADLINE;
use crate::dto::{Commit, Content, Contents, FileWritten, Place, present};
use crate::error::ApiError;
use crate::json;
use crate::page::Query;
use crate::path::RepoPath;
use crate::routes::routes;
use crate::state::Gateway;

routes! { Gateway:
    "/api/v1/repos/{owner}/{repo}/contents" => get get, put put;
    "/api/v1/repos/{owner}/{repo}/contents/{*file}" => get get, put put;
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

/// A message that git-svc does not take for its length is the client's file.
fn refused(status: tonic::Status) -> ApiError {
    if status.code() == tonic::Code::OutOfRange { ApiError::too_large() } else { status.into() }
}

fn decode(mut fields: Fields, repository_id: i64, path: Vec<u8>) -> Result<(PutContentsRequest, Slot), ApiError> {
    let message = fields.required("message");
    let encoded = fields.present("content");
    let branch = fields.text_or_empty("branch");
    let expected_blob_id = fields.text_or_empty("sha");
    let content = base64(encoded).unwrap_or_else(|| {
        fields.refuse("content", "invalid", "must be base64 in the standard alphabet, with padding");
        Vec::new()
    });
    if path.is_empty() {
        fields.refuse("path", "required", "is required");
    }
    let slot = fields.finish()?;
    let content = content.into();
    Ok((PutContentsRequest { repository_id, path, content, message, branch, expected_blob_id }, slot))
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
