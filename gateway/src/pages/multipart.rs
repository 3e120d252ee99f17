//! Forms of parts (`multipart/form-data`): with files, or with texts that are too long to be encoded
//! as in other forms. Read within the limits of the API's bodies.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use bytes::Bytes;
use ferrite_core::Secret;
use futures_util::future::{BoxFuture, ready};
use futures_util::stream;

use super::error::{PageError, PageResult};
use super::form::{Fields, FormToken, TOKEN_FIELD, check_origin, foreign_form, typed};
use super::visit::{PagesState, Visit};
use crate::http::body::TextBody;
use crate::http::body_limits::{BodyLimits, BodyPermit, MAX_JSON_BYTES};
use crate::http::error::ApiError;

/// As many files as a commit of the API can have, and the fields beside them.
const MAX_PARTS: usize = 1_000 + 24;

/// A file of a form.
#[derive(Debug)]
pub(super) struct FilePart {
    pub(super) field: String,
    /// The name without folders.
    pub(super) name: String,
    pub(super) content: Bytes,
}

/// What a form sent.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) fields: Fields,
    pub(super) files: Vec<FilePart>,
    /// Counts the bytes for the visitor. Dropped before the API counts what is sent on: a large body
    /// takes one of a few places.
    pub(super) permit: BodyPermit,
}

/// A form of at most `MAX_BYTES` bytes. It can be from anywhere until [`Parts::check`].
pub(super) struct PartsForm<const MAX_BYTES: usize> {
    pub(super) visit: Visit,
    pub(super) sent: PageResult<Parts>,
}

impl<const MAX_BYTES: usize> FromRequest<PagesState> for PartsForm<MAX_BYTES> {
    type Rejection = PageError;

    async fn from_request(request: Request, state: &PagesState) -> PageResult<Self> {
        let (mut parts, body) = request.into_parts();
        check_origin(&parts.headers, &state.site)?;
        let visit = Visit::from_request_parts(&mut parts, state).await?;
        let sent = match visit.api.session() {
            // Texts are read even so, to show them again. Large files are not.
            None if MAX_BYTES > MAX_JSON_BYTES => Err(PageError::SignIn),
            None | Some(_) => Parts::read::<MAX_BYTES>(&visit, Request::from_parts(parts, body)).await,
        };
        Ok(Self { visit, sent })
    }
}

impl Parts {
    async fn read<const MAX_BYTES: usize>(visit: &Visit, request: Request) -> PageResult<Self> {
        let Ok(body) = <TextBody<MAX_BYTES> as FromRequest<()>>::from_request(request, &()).await;
        let (bytes, permit) = body.read(&limits(visit)).await?;
        let (fields, files) = parse(&visit.headers, bytes.into()).await?;
        Ok(Self { fields, files, permit })
    }

    /// Fails unless a page of the visitor's session made the form.
    pub(super) fn check(&self, visit: &Visit) -> PageResult<()> {
        let secret = visit.api.session().map(Secret::expose).ok_or(PageError::SignIn)?;
        if FormToken::is_valid(secret, self.fields.text(TOKEN_FIELD)) { Ok(()) } else { Err(foreign_form()) }
    }
}

/// Returns the limits on bodies, of which the visitor's account has a share.
fn limits(visit: &Visit) -> BodyLimits {
    let user = visit.shell.viewer.as_ref().map(|viewer| viewer.id);
    let check = move |_: &HeaderMap| -> BoxFuture<'static, Result<Option<i64>, ApiError>> { Box::pin(ready(Ok(user))) };
    visit.state.limits.bodies.checked_by(Arc::new(check))
}

async fn parse(headers: &HeaderMap, bytes: Bytes) -> PageResult<(Fields, Vec<FilePart>)> {
    let malformed = || PageError::from(ApiError::bad_request("the form is malformed"));
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let boundary = multer::parse_boundary(content_type).map_err(|_| malformed())?;
    let mut parts = multer::Multipart::new(stream::iter([Ok::<_, Infallible>(bytes)]), boundary);
    let (mut fields, mut files) = (Vec::new(), Vec::new());
    while let Some(part) = parts.next_field().await.map_err(|_| malformed())? {
        if fields.len() + files.len() == MAX_PARTS {
            return Err(ApiError::invalid_field("files", "too_long", "must have at most 1000 entries").into());
        }
        let field = part.name().unwrap_or_default().to_owned();
        let name = part.file_name().map(base_name);
        let content = part.bytes().await.map_err(|_| malformed())?;
        match name {
            // What browsers send if no file is selected.
            Some(name) if name.is_empty() && content.is_empty() => {}
            Some(name) => files.push(FilePart { field, name, content }),
            None => fields.push((field, typed(&content))),
        }
    }
    Ok((fields.into_iter().collect(), files))
}

/// Returns the name of a file, of which some browsers send the folders too, and which all encode
/// quotes.
fn base_name(name: &str) -> String {
    name.rsplit(['/', '\\']).next().unwrap_or_default().replace("%22", "\"")
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers() -> HeaderMap {
        let type_of_form = HeaderValue::from_static("multipart/form-data; boundary=xyz");
        HeaderMap::from_iter([(CONTENT_TYPE, type_of_form)])
    }

    fn part(about: &str, content: &str) -> String {
        format!("--xyz\r\nContent-Disposition: form-data; {about}\r\n\r\n{content}\r\n")
    }

    #[tokio::test]
    async fn a_form_has_fields_and_files() {
        let body = [
            part("name=\"form_token\"", "t"),
            part("name=\"content\"", "a\r\nb\n"),
            part("name=\"files\"; filename=\"C:\\x\\é%22.txt\"", "1\r\n2"),
            part("name=\"files\"; filename=\"empty\"", ""),
            part("name=\"more\"; filename=\"\"", ""),
            "--xyz--\r\n".to_owned(),
        ];
        let (fields, files) = parse(&headers(), body.concat().into()).await.unwrap();
        assert_eq!((fields.text(TOKEN_FIELD), fields.text("content")), ("t", "a\nb\n"));
        let files: Vec<_> = files.iter().map(|file| (file.name.as_str(), &file.content[..])).collect();
        assert_eq!(files, [("é\".txt", &b"1\r\n2"[..]), ("empty", b"")]);
    }

    #[tokio::test]
    async fn a_form_ends_and_has_a_bound() {
        let one = part("name=\"a\"", "x");
        let whole = |count| format!("{}--xyz--\r\n", one.repeat(count));
        assert!(parse(&headers(), whole(MAX_PARTS).into()).await.is_ok());
        assert!(parse(&headers(), whole(MAX_PARTS + 1).into()).await.is_err());
        assert!(parse(&headers(), one.clone().into()).await.is_err(), "it broke off");
        assert!(parse(&HeaderMap::new(), whole(1).into()).await.is_err());
    }
}
