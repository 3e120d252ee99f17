//! Forms of parts (`multipart/form-data`): with files, or with texts that are too long to be encoded
//! as in other forms. Read within the limits of the API's bodies, or, with files of any size, passed
//! on to the API as they arrive.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use ferrite_core::Secret;
use futures_util::future::{BoxFuture, ready};
use futures_util::stream;
use multer::Field;
use serde_json::Value;
use tokio::sync::mpsc;

use super::client::Client;
use super::error::{PageError, PageResult};
use super::form::{Fields, FormToken, TOKEN_FIELD, check_origin, foreign_form, typed};
use super::visit::{PagesState, Visit};
use crate::http::body::TextBody;
use crate::http::body_limits::{BodyLimits, BodyPermit, MAX_JSON_BYTES};
use crate::http::error::ApiError;
use crate::http::upload::PartStream;

/// As many files as a commit of the API can have, and the fields beside them.
const MAX_PARTS: usize = 1_000 + 24;
/// Of a field beside files that are passed on.
const MAX_TEXT_BYTES: usize = 4 * 1024;

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

/// A form with files of any size. It can be from anywhere until [`FileStream::next`] finds its token.
pub(super) struct FilesForm {
    pub(super) visit: Visit,
    pub(super) files: FileStream,
}

/// The files of a form, none of which is held in memory. The token comes before them.
pub(super) struct FileStream {
    parts: PartStream,
    session: Secret,
    max_pause: Duration,
    has_token: bool,
    count: usize,
}

/// A file whose content is still on its way.
pub(super) struct StreamedFile {
    /// The name without folders.
    pub(super) name: String,
    content: Field<'static>,
}

impl FromRequest<PagesState> for FilesForm {
    type Rejection = PageError;

    async fn from_request(request: Request, state: &PagesState) -> PageResult<Self> {
        let (mut parts, body) = request.into_parts();
        check_origin(&parts.headers, &state.site)?;
        let visit = Visit::from_request_parts(&mut parts, state).await?;
        let session = visit.api.session().cloned().ok_or(PageError::SignIn)?;
        let parts = PartStream::of(Request::from_parts(parts, body))?;
        let max_pause = state.limits.bodies.max_pause;
        Ok(Self { visit, files: FileStream { parts, session, max_pause, has_token: false, count: 0 } })
    }
}

impl FileStream {
    /// Reads up to the content of the next file that was selected. Fails for a form that no page of
    /// the visitor's session made, and for a browser that sends nothing for too long.
    pub(super) async fn next(&mut self) -> PageResult<Option<StreamedFile>> {
        let found = tokio::time::timeout(self.max_pause, self.find()).await;
        found.map_err(|_| ApiError::new(StatusCode::REQUEST_TIMEOUT, "the form did not arrive in time"))?
    }

    async fn find(&mut self) -> PageResult<Option<StreamedFile>> {
        while let Some(part) = self.parts.next().await? {
            self.count += 1;
            if self.count > MAX_PARTS {
                return Err(ApiError::invalid_field("files", "too_long", "must have at most 1000 entries").into());
            }
            let name = part.file_name().map(base_name);
            match name {
                Some(_) if !self.has_token => return Err(foreign_form()),
                // What browsers send if no file is selected.
                Some(name) if name.is_empty() => {}
                Some(name) => return Ok(Some(StreamedFile { name, content: part })),
                None => {
                    let is_token = part.name() == Some(TOKEN_FIELD);
                    let text = short_text(part).await?;
                    self.has_token |= is_token && FormToken::is_valid(self.session.expose(), &text);
                }
            }
        }
        if self.has_token { Ok(None) } else { Err(foreign_form()) }
    }
}

impl StreamedFile {
    /// Posts the content to a path of the API. A response before its end is one that refuses it.
    pub(super) async fn send(self, api: &Client, path: &str) -> PageResult<Value> {
        let (sender, chunks) = mpsc::channel(1);
        let mut response = pin!(api.upload(path, body_of(chunks)));
        tokio::select! {
            response = &mut response => response,
            passed = pass_on(self.content, sender) => {
                let response = response.await;
                passed.map_err(|_| malformed())?;
                response
            }
        }
    }
}

/// Passes a content on to its end, or until nobody takes it any more.
async fn pass_on(mut content: Field<'static>, chunks: mpsc::Sender<Option<Bytes>>) -> Result<(), multer::Error> {
    loop {
        let chunk = content.chunk().await?;
        let is_end = chunk.is_none();
        if chunks.send(chunk).await.is_err() || is_end {
            return Ok(());
        }
    }
}

/// A body that ends with `None`. Without it, because the form broke off, the file is not whole.
fn body_of(mut chunks: mpsc::Receiver<Option<Bytes>>) -> Body {
    Body::from_stream(stream::poll_fn(move |cx| {
        chunks.poll_recv(cx).map(|chunk| match chunk {
            Some(chunk) => chunk.map(Ok),
            None => Some(Err(io::Error::from(io::ErrorKind::UnexpectedEof))),
        })
    }))
}

async fn short_text(mut part: Field<'static>) -> PageResult<String> {
    let mut bytes = Vec::new();
    while let Some(chunk) = part.chunk().await.map_err(|_| malformed())? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > MAX_TEXT_BYTES {
            return Err(ApiError::too_large().into());
        }
    }
    Ok(typed(&bytes))
}

fn malformed() -> PageError {
    ApiError::bad_request("the form is malformed").into()
}

async fn parse(headers: &HeaderMap, bytes: Bytes) -> PageResult<(Fields, Vec<FilePart>)> {
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
    use axum::body::to_bytes;
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
    fn streamed(body: String) -> FileStream {
        let mut request = Request::new(Body::from(body));
        request.headers_mut().extend(headers());
        let (parts, session) = (PartStream::of(request).unwrap(), Secret::new("s".to_owned()));
        FileStream { parts, session, max_pause: Duration::from_secs(5), has_token: false, count: 0 }
    }

    /// The content of the next file, as the API gets it.
    async fn next_file(files: &mut FileStream) -> Option<(String, Result<Bytes, axum::Error>)> {
        let StreamedFile { name, content } = files.next().await.unwrap()?;
        let (sender, chunks) = mpsc::channel(1);
        let (passed, body) = tokio::join!(pass_on(content, sender), to_bytes(body_of(chunks), 100));
        assert_eq!(passed.is_ok(), body.is_ok());
        Some((name, body))
    }

    #[tokio::test]
    async fn files_are_passed_on_after_the_token_of_the_session() {
        let token = part("name=\"form_token\"", &FormToken::new("s").to_string());
        let file = |name: &str| part(&format!("name=\"files\"; filename=\"{name}\""), "1\r\n2");
        let mut files = streamed([token.as_str(), &file(""), &file("a"), &file("x/b"), "--xyz--\r\n"].concat());
        for expected in ["a", "b"] {
            let (name, body) = next_file(&mut files).await.unwrap();
            assert_eq!((name.as_str(), &body.unwrap()[..]), (expected, &b"1\r\n2"[..]));
        }
        assert!(next_file(&mut files).await.is_none());
        let foreign = part("name=\"form_token\"", &FormToken::new("other").to_string());
        let long = part("name=\"a\"", &"x".repeat(MAX_TEXT_BYTES + 1));
        for wrong in [file("a"), foreign.clone() + &file("a"), foreign, token.clone() + &long, String::new()] {
            assert!(streamed(wrong.clone() + "--xyz--\r\n").next().await.is_err(), "{wrong}");
        }
        let many = part("name=\"a\"", "").repeat(MAX_PARTS);
        assert!(streamed(token + &many + "--xyz--\r\n").next().await.is_err());
    }

    #[tokio::test]
    async fn a_file_that_breaks_off_is_never_whole() {
        let token = part("name=\"form_token\"", &FormToken::new("s").to_string());
        let mut files = streamed(token + &part("name=\"files\"; filename=\"a\"", "1"));
        let (_, body) = next_file(&mut files).await.unwrap();
        assert!(body.is_err());
    }
}
