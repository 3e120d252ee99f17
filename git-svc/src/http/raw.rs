//! The bytes of one file.

use axum::{
    Extension,
    body::Body,
    extract::{Path, Request, State},
    response::Response,
};
use ferrite_kit::auth::Caller;
use ferrite_proto::{id::RepositoryId, operation::RAW};
use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::{answer::Refusal, gates::Client, git::repository, query, transfer::output};
use crate::{app::App, error::GitError, read};

/// Carries the file's name, percent-encoded.
const FILE_NAME: &str = "ferrite-file-name";

/// `GET /git/{id}/raw?path=…`: the file that a branch, tag or commit and a path name.
pub(super) async fn raw(
    State(app): State<App>,
    Path(id): Path<String>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Refusal> {
    let id = repository(&id)?;
    let grant = app.authorize_as(&caller, RAW, id).await?;
    let id = RepositoryId(id);
    let path = query::value(request.uri().query().unwrap_or_default(), "path");
    let path =
        path.ok_or_else(|| GitError::invalid("path", "required", "must be a ref and a path, percent-encoded"))?;
    let file = app.pool.run(id, move |repo| read::raw(repo, &path)).await?;
    let etag = format!("\"{}\"", file.blob);
    if is_known(request.headers(), &etag) {
        return Ok(answer(Body::empty(), StatusCode::NOT_MODIFIED, &etag, &file.name));
    }
    let body = match file.content {
        Some(content) => Body::from(content),
        None => {
            let turn = app.gates.raw.enter(id, &Client::of(&caller, &grant, request.headers())).await?;
            let child = app.git.cat_file(&app.store.path(id), file.blob)?;
            Body::from_stream(output(&app, child, turn))
        }
    };
    let mut response = answer(body, StatusCode::OK, &etag, &file.name);
    response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(file.size));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    Ok(response)
}

fn answer(body: Body, status: StatusCode, etag: &str, name: &[u8]) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    // Both are plain ASCII: there is nothing to refuse.
    if let (Ok(etag), Ok(name)) = (HeaderValue::from_str(etag), HeaderValue::from_str(&query::encode(name))) {
        response.headers_mut().insert(header::ETAG, etag);
        response.headers_mut().insert(FILE_NAME, name);
    }
    response
}

/// Whether the client has this very file.
pub(super) fn is_known(headers: &HeaderMap, etag: &str) -> bool {
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    known
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .any(|tag| tag == "*" || tag.trim_start_matches("W/") == etag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_the_condition_is_understood() {
        for (value, known) in
            [("\"a\"", true), ("W/\"a\"", true), ("\"b\", \"a\"", true), ("*", true), ("\"b\"", false), ("a", false)]
        {
            let mut headers = HeaderMap::new();
            headers.insert(header::IF_NONE_MATCH, HeaderValue::from_static(value));
            assert_eq!(is_known(&headers, "\"a\""), known, "{value}");
        }
    }
}
