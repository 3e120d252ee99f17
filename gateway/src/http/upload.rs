//! Bodies with files, which are streamed, never held in memory: `multipart/form-data` with one file as
//! its first part or with several, or the raw bytes of one.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::extract::{FromRequest, Request};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use ferrite_api_types::schema::{Schema, Schemas};
use futures_util::{Stream, StreamExt};
use multer::Field;
use serde_json::json;

use super::body::{RefusedBody, check_encoding};
use super::body_limits::{BodyLimits, UploadPermit};
use super::describe::{BodyDescription, Description, Input, file_schema};
use super::error::ApiError;

/// Deadline of an upload: of a file, or of all files of one form. git-svc has shorter ones.
pub(crate) const UPLOAD_TIMEOUT: Duration = Duration::from_secs(2 * 3600);
/// Bytes that are read before the content of a part.
const MAX_HEAD_BYTES: usize = 64 * 1024;
const FILE_TYPE: &str = "application/octet-stream";

pub(crate) trait Part {
    const NAME: &'static str;
}

/// A request whose body is a file, not opened yet: a handler checks permissions first.
pub(crate) struct FileBody<P> {
    request: Request,
    part: PhantomData<fn() -> P>,
}

impl<S: Send + Sync, P> FromRequest<S> for FileBody<P> {
    type Rejection = Infallible;

    async fn from_request(request: Request, _: &S) -> Result<Self, Infallible> {
        Ok(Self { request, part: PhantomData })
    }
}

impl<P: Part> FileBody<P> {
    pub(crate) async fn open(self, limits: &BodyLimits, user: i64, max_bytes: u64) -> Result<Upload, ApiError> {
        Upload::open(self.request, limits, user, max_bytes, P::NAME).await
    }
}

impl<P: Part> Input for FileBody<P> {
    fn describe(about: &mut Description) {
        let form = |schemas: &mut Schemas| -> Schema {
            json!({"type": "object", "properties": {(P::NAME): file_schema(schemas)}, "required": [P::NAME]})
        };
        about.bodies.push(BodyDescription { media_type: "multipart/form-data", schema: form, max_bytes: None });
        about.bodies.push(BodyDescription { media_type: FILE_TYPE, schema: file_schema, max_bytes: None });
    }
}

/// A file whose content is not read yet.
pub(crate) struct Upload {
    pub(crate) name: Option<String>,
    /// The media type that the client sent.
    pub(crate) content_type: String,
    pub(crate) content: Body,
    /// Set once the multipart body turns out to be malformed.
    pub(crate) is_malformed: Arc<AtomicBool>,
    /// Held until the file is streamed.
    pub(crate) permit: UploadPermit,
}

impl Upload {
    /// Reads a request up to the start of the file of `user`: in a multipart body, the part
    /// `field`, which must be the first one.
    ///
    /// # Errors
    /// The error of [`RefusedBody`]. 415 for another content type or encoding, 413 for a body that
    /// declares more than `max_bytes`, 503 for too many concurrent files, 408 for a client that
    /// sends too slowly, 400 for a malformed body, 422 if another part comes first.
    async fn open(
        request: Request,
        limits: &BodyLimits,
        user: i64,
        max_bytes: u64,
        field: &str,
    ) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        RefusedBody::check(&parts.extensions)?;
        check_encoding(&parts.headers)?;
        let content_type = content_type(&parts.headers);
        let media_type = content_type.split(';').next().unwrap_or_default().trim();
        let is_form = media_type.eq_ignore_ascii_case("multipart/form-data");
        if !is_form && !media_type.eq_ignore_ascii_case(FILE_TYPE) {
            let message = "content type must be multipart/form-data or application/octet-stream";
            return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
        }
        let declared = parts.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        let allowed = max_bytes.saturating_add(if is_form { MAX_HEAD_BYTES as u64 } else { 0 });
        if declared.is_some_and(|declared| declared > allowed) {
            return Err(ApiError::too_large());
        }
        let permit = limits.upload(&parts.headers, user)?;
        if !is_form {
            let (name, content_type) = (None, FILE_TYPE.to_owned());
            return Ok(Self { name, content_type, content: body, is_malformed: Arc::default(), permit });
        }
        let parts = PartStream::new(body, boundary(content_type)?);
        tokio::time::timeout(limits.max_pause, open_part(parts, field, permit))
            .await
            .map_err(|_| ApiError::new(StatusCode::REQUEST_TIMEOUT, "request body did not arrive in time"))?
    }
}

async fn open_part(mut parts: PartStream, field: &str, permit: UploadPermit) -> Result<Upload, ApiError> {
    let Some(part) = parts.next().await?.filter(|part| part.name() == Some(field)) else {
        return Err(ApiError::invalid_field(field, "required", "must be the first part of the body"));
    };
    // Some clients send a path.
    let name = part.file_name().and_then(|name| name.rsplit('/').next()).map(str::to_owned);
    let content_type = part.content_type().map_or_else(|| FILE_TYPE.to_owned(), ToString::to_string);
    let is_malformed = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_malformed);
    let content = Body::from_stream(part.inspect(move |chunk| {
        if chunk.is_err() {
            flag.store(true, Ordering::Relaxed);
        }
    }));
    Ok(Upload { name, content_type, content, is_malformed, permit })
}

fn content_type(headers: &HeaderMap) -> &str {
    headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn boundary(content_type: &str) -> Result<String, ApiError> {
    multer::parse_boundary(content_type).map_err(|_| ApiError::bad_request("content type has no multipart boundary"))
}

/// The parts of a multipart body, of which one is read at a time.
pub(crate) struct PartStream {
    parts: multer::Multipart<'static>,
    head_bytes: Arc<AtomicUsize>,
}

impl PartStream {
    /// # Errors
    /// The error of [`RefusedBody`]. 415 for another encoding, 400 for a body of another type.
    pub(crate) fn of(request: Request) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        RefusedBody::check(&parts.extensions)?;
        check_encoding(&parts.headers)?;
        Ok(Self::new(body, boundary(content_type(&parts.headers))?))
    }

    fn new(body: Body, boundary: String) -> Self {
        let head_bytes = Arc::new(AtomicUsize::new(0));
        let chunks =
            PacedChunks { chunks: body.into_data_stream(), head_bytes: Arc::clone(&head_bytes), is_next: true };
        Self { parts: multer::Multipart::new(chunks, boundary), head_bytes }
    }

    /// Reads up to the content of the next part. Whoever reads the content limits its bytes, and drops
    /// it before the next call. 400 for a malformed body, and for one with much of that content left.
    pub(crate) async fn next(&mut self) -> Result<Option<Field<'static>>, ApiError> {
        self.head_bytes.store(0, Ordering::Relaxed);
        let part = self.parts.next_field().await.map_err(|_| ApiError::bad_request("multipart body is malformed"))?;
        self.head_bytes.store(HEAD_IS_READ, Ordering::Relaxed);
        Ok(part)
    }
}

/// Stops the count of head bytes.
const HEAD_IS_READ: usize = usize::MAX;

/// Yields the chunks of a body one at a time, because the parser reads and keeps all that are
/// available. Ends with an error if the head has too many bytes.
struct PacedChunks {
    chunks: BodyDataStream,
    /// Bytes of the head so far; [`HEAD_IS_READ`] once it is complete.
    head_bytes: Arc<AtomicUsize>,
    /// False right after a chunk.
    is_next: bool,
}

impl Stream for PacedChunks {
    type Item = Result<Bytes, axum::BoxError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if !self.is_next {
            self.is_next = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let head_bytes = self.head_bytes.load(Ordering::Relaxed);
        if head_bytes != HEAD_IS_READ && head_bytes > MAX_HEAD_BYTES {
            return Poll::Ready(Some(Err("part header is too long".into())));
        }
        let chunk = std::task::ready!(self.chunks.poll_next_unpin(cx));
        self.is_next = false;
        if let Some(Ok(bytes)) = &chunk
            && head_bytes != HEAD_IS_READ
        {
            self.head_bytes.store(head_bytes + bytes.len(), Ordering::Relaxed);
        }
        Poll::Ready(chunk.map(|chunk| chunk.map_err(Into::into)))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use http_body_util::BodyExt;

    use super::*;

    const FORM: &str = "multipart/form-data; boundary=xyz";

    async fn open(content_type: &str, body: Body, max_bytes: u64) -> Result<Upload, u16> {
        let mut request = Request::new(body);
        request.headers_mut().insert(CONTENT_TYPE, content_type.parse().unwrap());
        let limits = BodyLimits::new(1, 1, Duration::from_secs(5));
        Upload::open(request, &limits, 7, max_bytes, "file").await.map_err(|error| error.status.as_u16())
    }

    fn form(name: &str, content: &str) -> String {
        format!(
            "--xyz\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"dir/a b.txt\"\r\n\
             Content-Type: text/plain\r\n\r\n{content}\r\n--xyz--\r\n"
        )
    }

    #[tokio::test]
    async fn a_file_comes_as_a_part_or_alone() {
        let upload = open(FORM, Body::from(form("file", "abc")), 3).await.unwrap();
        assert_eq!((upload.name.as_deref(), upload.content_type.as_str()), (Some("a b.txt"), "text/plain"));
        assert_eq!(&upload.content.collect().await.unwrap().to_bytes()[..], b"abc");
        let upload = open("Application/Octet-Stream", Body::from("abc"), 3).await.unwrap();
        assert_eq!((upload.name, upload.content_type.as_str()), (None, FILE_TYPE));
        assert_eq!(&upload.content.collect().await.unwrap().to_bytes()[..], b"abc");
    }

    #[tokio::test]
    async fn a_body_with_a_file_is_described_and_opened() {
        enum Attachment {}
        impl Part for Attachment {
            const NAME: &'static str = "attachment";
        }
        let mut about = Description::default();
        FileBody::<Attachment>::describe(&mut about);
        let types: Vec<_> = about.bodies.iter().map(|body| body.media_type).collect();
        assert_eq!(types, ["multipart/form-data", "application/octet-stream"]);
        let schema = (about.bodies[0].schema)(&mut Schemas::default());
        assert_eq!(schema["required"], json!(["attachment"]));
        assert_eq!(schema["properties"]["attachment"], json!({"type": "string", "format": "binary"}));
        let mut request = Request::new(Body::from(form("attachment", "abc")));
        request.headers_mut().insert(CONTENT_TYPE, FORM.parse().unwrap());
        let Ok(body) = FileBody::<Attachment>::from_request(request, &()).await;
        let upload = body.open(&BodyLimits::new(1, 1, Duration::from_secs(5)), 7, 3).await.unwrap();
        assert_eq!(&upload.content.collect().await.unwrap().to_bytes()[..], b"abc");
    }

    #[tokio::test]
    async fn a_part_in_single_bytes_is_read_and_one_that_breaks_off_is_malformed() {
        let bytes: Vec<_> = form("file", "a\r\n--xy").into_bytes();
        let single = stream::iter(bytes.into_iter().map(|byte| Ok::<_, Infallible>(vec![byte])));
        let upload = open(FORM, Body::from_stream(single), 9).await.unwrap();
        assert_eq!(&upload.content.collect().await.unwrap().to_bytes()[..], b"a\r\n--xy");
        assert!(!upload.is_malformed.load(Ordering::Relaxed));
        let cut = form("file", "abc").replace("--xyz--", "");
        let upload = open(FORM, Body::from(cut), 9).await.unwrap();
        assert!(upload.content.collect().await.is_err() && upload.is_malformed.load(Ordering::Relaxed));
    }

    #[tokio::test]
    async fn a_user_passes_on_so_many_files_at_once() {
        let limits = BodyLimits::new(1, 8, Duration::from_secs(5));
        let open = async |user| {
            let mut request = Request::new(Body::empty());
            request.headers_mut().insert(CONTENT_TYPE, FILE_TYPE.parse().unwrap());
            Upload::open(request, &limits, user, 9, "file").await
        };
        let (first, second) = (open(1).await.unwrap(), open(1).await.unwrap());
        assert_eq!(open(1).await.err().map(|error| error.status.as_u16()), Some(503));
        let other = open(2).await.unwrap();
        drop(first);
        let again = open(1).await.unwrap();
        drop((second, other, again));
    }

    #[tokio::test]
    async fn other_bodies_are_refused() {
        assert_eq!(open("application/json", Body::from("{}"), 9).await.err(), Some(415));
        assert_eq!(open("multipart/form-data", Body::from(form("file", "")), 9).await.err(), Some(400));
        assert_eq!(open(FORM, Body::from(form("other", "abc")), 9).await.err(), Some(422));
        assert_eq!(open(FORM, Body::from("--xyz--\r\n"), 9).await.err(), Some(422));
        assert_eq!(open(FORM, Body::from("no form"), 9).await.err(), Some(400));
        let endless = stream::repeat_with(|| Ok::<_, Infallible>(vec![b'a'; 16 * 1024]));
        let head = stream::iter([Ok(b"--xyz\r\nX: ".to_vec())]);
        assert_eq!(open(FORM, Body::from_stream(head.chain(endless)), 9).await.err(), Some(400));
    }

    #[tokio::test]
    async fn each_part_of_a_form_is_read_when_it_is_asked_for() {
        let long = "x".repeat(3 * MAX_HEAD_BYTES);
        let parts = [form("a", "1"), form("b", &long), form("c", "")].map(|part| part.replace("--xyz--\r\n", ""));
        let whole = format!("{}--xyz--\r\n", parts.concat());
        let of = |text: &str| {
            let pieces: Vec<_> = text.as_bytes().chunks(1000).map(<[u8]>::to_vec).map(Ok::<_, Infallible>).collect();
            let mut request = Request::new(Body::from_stream(stream::iter(pieces)));
            request.headers_mut().insert(CONTENT_TYPE, FORM.parse().unwrap());
            PartStream::of(request).unwrap()
        };
        let mut read = of(&whole);
        for (name, bytes) in [("a", 1), ("b", long.len()), ("c", 0)] {
            let part = read.next().await.unwrap().unwrap();
            assert_eq!(part.name(), Some(name));
            assert_eq!(part.bytes().await.unwrap().len(), bytes);
        }
        assert!(read.next().await.unwrap().is_none());
        // A content that nobody wants is not read to its end.
        let mut skipped = of(&whole);
        for _ in 0..2 {
            drop(skipped.next().await.unwrap().unwrap());
        }
        assert!(skipped.next().await.is_err());
        assert!(PartStream::of(Request::new(Body::from(whole))).is_err(), "it has no type");
    }

    #[tokio::test]
    async fn chunks_wait_until_they_are_asked_for() {
        let taken = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&taken);
        let head = form("file", "").split("\r\n--xyz--").next().unwrap().to_owned();
        let endless = stream::repeat_with(move || {
            counter.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Infallible>(vec![b'a'; 1024])
        });
        let body = Body::from_stream(stream::iter([Ok(head.into_bytes())]).chain(endless));
        let mut content = open(FORM, body, 9).await.unwrap().content;
        for _ in 0..20 {
            content.frame().await.unwrap().unwrap();
        }
        assert!(taken.load(Ordering::Relaxed) < 60, "{taken:?}");
    }
}
