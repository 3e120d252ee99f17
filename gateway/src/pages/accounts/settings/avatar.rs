//! The visitor's picture. Files come as a multipart form, the only one of the pages.

use std::convert::Infallible;

use askama::Template;
use axum::body::to_bytes;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Method, StatusCode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use ferrite_core::Secret;
use futures_util::stream;
use serde_json::json;

use super::Section;
use crate::avatar::MAX_UPLOAD_BYTES;
use crate::http::error::ApiError;
use crate::pages::error::{PageError, PageResult};
use crate::pages::form::{FormToken, TOKEN_FIELD, check_origin, foreign_form};
use crate::pages::view::Account;
use crate::pages::visit::{PagesState, Visit};

/// A part holds a file, or a word or two; and the heads of the parts.
const MAX_FORM_BYTES: usize = MAX_UPLOAD_BYTES + 16 * 1024;
const MAX_PARTS: usize = 8;
const TOO_LARGE: &str = "The picture has too many bytes: at most 1 MiB.";
const NO_FILE: &str = "Select a file first.";

#[derive(Template)]
#[template(path = "settings/avatar.html")]
struct Avatar<'a> {
    token: FormToken,
    viewer: &'a Account,
}

/// What the form sent.
#[derive(Debug, Default)]
struct Sent {
    token: String,
    action: String,
    image: Bytes,
}

pub(super) async fn show(visit: Visit) -> PageResult {
    page(&visit, "")
}

fn page(visit: &Visit, error: &str) -> PageResult {
    let viewer = visit.signed_in()?;
    Section::Avatar.page(visit, &Avatar { token: FormToken::of(visit), viewer }, error)
}

/// Replaces the picture, or returns to the generated one.
pub(super) async fn change(State(state): State<PagesState>, request: Request) -> PageResult {
    let (mut parts, body) = request.into_parts();
    check_origin(&parts.headers, &state.site)?;
    let visit = Visit::from_request_parts(&mut parts, &state).await?;
    visit.signed_in()?;
    let Ok(bytes) = to_bytes(body, MAX_FORM_BYTES).await else { return page(&visit, TOO_LARGE) };
    let sent = Sent::read(&visit.headers, bytes).await?;
    if !FormToken::is_valid(visit.api.session().map_or("", Secret::expose), &sent.token) {
        return Err(foreign_form());
    }
    let changed = match (sent.action.as_str(), sent.image.is_empty()) {
        ("remove", _) => visit.api.change(Method::DELETE, "user/avatar", None).await,
        (_, true) => return page(&visit, NO_FILE),
        (_, false) => {
            let body = json!({"image": STANDARD.encode(&sent.image)});
            visit.api.change(Method::POST, "user/avatar", Some(body)).await
        }
    };
    match changed {
        Ok(_) => Ok(visit.redirect(Section::Avatar.path())),
        Err(error) if error.status() == StatusCode::PAYLOAD_TOO_LARGE => page(&visit, TOO_LARGE),
        Err(error) => page(&visit, &error.mistake()?),
    }
}

impl Sent {
    async fn read(headers: &HeaderMap, bytes: Bytes) -> PageResult<Self> {
        let malformed = || PageError::from(ApiError::bad_request("the form is malformed"));
        let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let boundary = multer::parse_boundary(content_type).map_err(|_| malformed())?;
        let mut parts = multer::Multipart::new(stream::iter([Ok::<_, Infallible>(bytes)]), boundary);
        let mut sent = Self::default();
        for _ in 0..MAX_PARTS {
            let Some(part) = parts.next_field().await.map_err(|_| malformed())? else { return Ok(sent) };
            let name = part.name().unwrap_or_default().to_owned();
            let content = part.bytes().await.map_err(|_| malformed())?;
            let text = || String::from_utf8_lossy(&content).into_owned();
            match name.as_str() {
                TOKEN_FIELD => sent.token = text(),
                "action" => sent.action = text(),
                "image" => sent.image = content,
                _ => {}
            }
        }
        Err(malformed())
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[tokio::test]
    async fn a_file_comes_with_the_token_of_the_form() {
        let type_of_form = HeaderValue::from_static("multipart/form-data; boundary=xyz");
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, type_of_form)]);
        let part = |name: &str, content: &str| {
            format!("--xyz\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{content}\r\n")
        };
        let body =
            [part("form_token", "t"), part("other", "x"), part("image", "PNG"), "--xyz--\r\n".to_owned()].concat();
        let sent = Sent::read(&headers, body.clone().into()).await.unwrap();
        assert_eq!((sent.token.as_str(), sent.action.as_str(), &sent.image[..]), ("t", "", &b"PNG"[..]));
        assert!(Sent::read(&headers, part("a", "x").repeat(MAX_PARTS + 1).into()).await.is_err());
        assert!(Sent::read(&HeaderMap::new(), body.into()).await.is_err());
    }
}
