//! A tree as one file to download: piped from git-svc, which makes it.

use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, IF_RANGE, RANGE,
};
use axum::http::{HeaderValue, Method, Response, StatusCode};
use ferrite_proto::operation;
use futures_util::StreamExt;
use http_body_util::BodyStream;
use hyper::body::Incoming;

use super::raw::{TRANSFER_ENCODING, beyond, disposition, not_modified, opened, refused, request};
use crate::auth::{Headers, Signed};
use crate::http::error::{ApiError, FieldError};
use crate::http::links::encode;
use crate::http::middleware::HeadersOnly;
use crate::http::path::RepoPath;
use crate::http::routes::routes;
use crate::state::Gateway;

/// git-svc gives up before: a part of an archive is there when all of it is made.
const DEADLINE: Duration = Duration::from_secs(160);
const MISSING: &str = "archive does not exist";

routes! { Gateway:
    "/api/v1/repos/{owner}/{repo}/archive/{*archive}" => get get as operation::ARCHIVE;
}

async fn get(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: RepoPath,
    headers_only: Option<Extension<HeadersOnly>>,
    Headers(headers): Headers,
) -> Result<Response<Body>, ApiError> {
    let access = gateway.access(&call, &path, operation::ARCHIVE).await?;
    let (revision, format) = split(&path.rest).ok_or(ApiError::not_found(MISSING))?;
    let uri = format!(
        "/git/{}/archive?revision={}&format={format}&prefix={}",
        access.id,
        encode(revision),
        encode(access.name.as_bytes())
    );
    let mut request =
        request(&uri, &access, &headers, &[IF_NONE_MATCH, IF_RANGE, RANGE]).ok_or(ApiError::not_found(MISSING))?;
    if headers_only.is_some() {
        // git-svc makes nothing then.
        *request.method_mut() = Method::HEAD;
    }
    // What follows may take as long as the client does.
    let answer =
        tokio::time::timeout(DEADLINE, opened(&gateway, request)).await.map_err(|_| ApiError::unavailable())??;
    match answer.status() {
        StatusCode::OK | StatusCode::PARTIAL_CONTENT => Ok(shown(answer, &file_name(&access.name, revision, format))),
        StatusCode::NOT_MODIFIED => Ok(not_modified(&answer)),
        StatusCode::RANGE_NOT_SATISFIABLE => Ok(beyond(&answer, "range begins behind the end of the archive")),
        StatusCode::PAYLOAD_TOO_LARGE => Err(too_large()),
        _ => Err(refused(&answer, MISSING)),
    }
}

/// The revision and the format that an archive's name is made of.
fn split(name: &[u8]) -> Option<(&[u8], &'static str)> {
    ["zip", "tar.gz"].into_iter().find_map(|format| {
        let revision = name.strip_suffix(format.as_bytes())?.strip_suffix(b".")?;
        (!revision.is_empty()).then_some((revision, format))
    })
}

/// The name to save it by: slashes would be taken for folders.
fn file_name(repository: &str, revision: &[u8], format: &str) -> Vec<u8> {
    let revision: Vec<u8> = revision.iter().map(|byte| if *byte == b'/' { b'-' } else { *byte }).collect();
    [repository.as_bytes(), b"-", &revision, b".", format.as_bytes()].concat()
}

fn shown(answer: Response<Incoming>, name: &[u8]) -> Response<Body> {
    let (parts, body) = answer.into_parts();
    // As a stream it has no size of its own: an answer to HEAD has none, and the length of the archive may be unknown.
    let body =
        BodyStream::new(body).filter_map(|frame| async { frame.map(|frame| frame.into_data().ok()).transpose() });
    let mut response = Response::new(Body::from_stream(body));
    *response.status_mut() = parts.status;
    let headers = response.headers_mut();
    for name in [CONTENT_LENGTH, CONTENT_RANGE, ETAG] {
        if let Some(value) = parts.headers.get(&name) {
            headers.insert(name, value.clone());
        }
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("binary"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("must-revalidate"));
    if let Ok(value) = HeaderValue::try_from(disposition(name)) {
        headers.insert(CONTENT_DISPOSITION, value);
    }
    response
}

fn too_large() -> ApiError {
    ApiError::invalid(vec![FieldError {
        field: "archive".into(),
        code: "too_large".into(),
        message: "holds more than an archive may, clone the repository instead".into(),
    }])
}

#[cfg(test)]
mod tests {
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
            assert_eq!(split(name.as_bytes()), expected, "{name}");
        }
    }

    #[test]
    fn no_slash_gets_into_the_name_to_save_it_by() {
        let name = file_name("demo", b"feature/one", "zip");
        assert_eq!(disposition(&name), "attachment; filename=\"demo-feature-one.zip\"");
        let name = file_name("demo", b"a\"/\xff", "tar.gz");
        assert_eq!(
            disposition(&name),
            "attachment; filename=\"demo-a_-_.tar.gz\"; filename*=UTF-8''demo-a%22-%FF.tar.gz"
        );
    }
}
