//! Archives of a revision, streamed from git-svc.

use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, IF_NONE_MATCH, IF_RANGE, RANGE};
use axum::http::{HeaderValue, Method, Response, StatusCode};
use ferrite_proto::operation;
use ferrite_proto::raw::ARCHIVE_COMMIT_HEADER;
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::response::{
    TRANSFER_ENCODING, git_request, insert_content_disposition, response_with_file, response_without_file, send_guarded,
};
use crate::api::call::{MaybeAuthenticated, operations};
use crate::http::caching::IMMUTABLE;
use crate::http::error::{ApiError, ApiResult};
use crate::http::headers::{Headers, RangeHeaders};
use crate::http::middleware::HeadRequest;
use crate::http::path::RepoPath;
use crate::http::response::{File, Media};
use ferrite_api_types::links::encode;

/// Deadline for the headers of an archive. git-svc sends them once the archive is complete, and has
/// a shorter deadline.
const ARCHIVE_TIMEOUT: Duration = Duration::from_secs(160);
const NOT_FOUND: &str = "archive does not exist";
const TOO_LARGE: &str = "exceeds the size limit of archives, clone the repository instead";

operations! {
    "/api/v1/repos/{owner}/{repo}/archive/{*archive}" => get get as operation::ARCHIVE;
}

enum Archive {}

impl Media for Archive {
    const TYPES: &'static [&'static str] = &["application/octet-stream"];
}

async fn get(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    head_request: Option<Extension<HeadRequest>>,
    headers: Headers<RangeHeaders>,
) -> ApiResult<File<Archive>> {
    let access = call.access(&path, operation::ARCHIVE).await?;
    let (revision, format) = split_name(&path.rest).ok_or(ApiError::not_found(NOT_FOUND))?;
    let uri = format!(
        "/git/{}/archive?revision={}&format={format}&prefix={}",
        access.id,
        encode(revision),
        encode(access.name.as_bytes())
    );
    let mut request = git_request(&uri, &access, &headers.map, &[IF_NONE_MATCH, IF_RANGE, RANGE])
        .ok_or(ApiError::not_found(NOT_FOUND))?;
    if head_request.is_some() {
        // git-svc creates no archive for HEAD.
        *request.method_mut() = Method::HEAD;
    }
    // The body has no deadline: it takes as long as the client reads.
    let (response, revoked) = send_guarded(&call, &access, request, ARCHIVE_TIMEOUT).await?;
    // The archive of a commit id stays the same, unless a future git writes it differently.
    let commit = response.headers().get(ARCHIVE_COMMIT_HEADER);
    let is_by_id = commit.is_some_and(|commit| commit.as_bytes().eq_ignore_ascii_case(revision));
    let mut response = match response.status() {
        StatusCode::OK | StatusCode::PARTIAL_CONTENT => {
            let response = archive_response(response, &file_name(&access.name, revision, format));
            response.map(|body| call.reauthorizer.guard(body, revoked))
        }
        StatusCode::PAYLOAD_TOO_LARGE => return Err(ApiError::invalid_field("archive", "too_large", TOO_LARGE)),
        _ => response_without_file(&response, NOT_FOUND, "range starts beyond the end of the archive")?,
    };
    if is_by_id {
        response.headers_mut().insert(CACHE_CONTROL, IMMUTABLE);
    }
    Ok(File::from(response))
}

fn split_name(name: &[u8]) -> Option<(&[u8], &'static str)> {
    ["zip", "tar.gz"].into_iter().find_map(|format| {
        let revision = name.strip_suffix(format.as_bytes())?.strip_suffix(b".")?;
        (!revision.is_empty()).then_some((revision, format))
    })
}

/// Returns the file name of the download. Slashes in the revision become hyphens.
fn file_name(repository: &str, revision: &[u8], format: &str) -> Vec<u8> {
    let revision: Vec<u8> = revision.iter().map(|byte| if *byte == b'/' { b'-' } else { *byte }).collect();
    [repository.as_bytes(), b"-", &revision, b".", format.as_bytes()].concat()
}

fn archive_response(upstream: Response<Incoming>, name: &[u8]) -> Response<Body> {
    let (parts, body) = upstream.into_parts();
    let mut response = response_with_file(&parts, body.into_data_stream());
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("binary"));
    insert_content_disposition(headers, name);
    response
}

#[cfg(test)]
mod tests {
    use super::super::response::content_disposition;
    use super::*;

    #[test]
    fn a_name_is_a_revision_and_one_of_two_endings() {
        for (name, expected) in [
            ("main.zip", Some(("main", "zip"))),
            ("feature/a.b.tar.gz", Some(("feature/a.b", "tar.gz"))),
            ("v1.zip.tar.gz", Some(("v1.zip", "tar.gz"))),
            ("main.tar", None),
            ("main.ZIP", None),
            ("mainzip", None),
            (".zip", None),
            (".tar.gz", None),
            ("", None),
        ] {
            let expected = expected.map(|(revision, format): (&str, _)| (revision.as_bytes(), format));
            assert_eq!(split_name(name.as_bytes()), expected, "{name}");
        }
    }

    #[test]
    fn the_file_name_has_no_slashes() {
        let name = file_name("demo", b"feature/one", "zip");
        assert_eq!(content_disposition(&name), "attachment; filename=\"demo-feature-one.zip\"");
        let name = file_name("demo", b"a\"/\xff", "tar.gz");
        assert_eq!(
            content_disposition(&name),
            "attachment; filename=\"demo-a_-_.tar.gz\"; filename*=UTF-8''demo-a%22-%FF.tar.gz"
        );
    }
}
