//! Responses of handlers as types, so that a signature shows status and value.

use std::marker::PhantomData;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use ferrite_api_types::LongTexts;
use ferrite_api_types::schema::{Schema, Schemas, Shape};
use serde::Serialize;
use serde_json::json;

use super::caching::NO_STORE;
use super::describe::{Description, Output, Success, bytes_schema};
use super::json::{self, Shorten, Texts, Whole};

pub(crate) const EVENT_STREAM: &str = "text/event-stream";

/// 200 with a value.
pub(crate) struct Json<T>(pub(crate) T);

/// 200 with a value that drops what exceeds the size limit of a response.
pub(crate) struct Shortened<T>(pub(crate) T);

/// 201 with a value and its API URL.
pub(crate) struct Created<T> {
    value: T,
    location: String,
}

/// 202 with a value, for an operation that continues in the background.
pub(crate) struct Accepted<T>(pub(crate) T);

/// 202 without a body.
pub(crate) struct Started;

/// 200 without a body, for clients that expect this status.
pub(crate) struct Done;

/// 201 without a body, for something that is to happen later, with the API URL that shows it.
pub(crate) struct Scheduled {
    pub(crate) location: String,
}

/// 204 without a body.
pub(crate) struct NoContent;

/// 200 with a value that contains a page of a list.
pub(crate) struct Paged<T> {
    pub(super) value: T,
    pub(super) headers: HeaderMap,
}

/// 200 with a page of a list.
pub(crate) type List<T> = Paged<Vec<T>>;

/// 200 with a page of a list whose long texts are cut if the page exceeds the size limit of a
/// response.
pub(crate) struct TextList<T> {
    pub(super) entries: Vec<T>,
    pub(super) headers: HeaderMap,
}

/// 200 with a part of a list and the cursor of the next part.
pub(crate) struct CursorPage<T>(pub(crate) T);

/// 200 with HTML that browsers treat as foreign to this site.
pub(crate) struct Html(pub(crate) String);

/// 200 with a text.
pub(crate) struct PlainText(pub(crate) String);

/// 200 with server-sent events.
pub(crate) struct EventStream(pub(crate) Body);

/// A file response made by the handler: the file or a range of it, 304 or 416.
pub(crate) struct File<M> {
    response: Response,
    media: PhantomData<fn() -> M>,
}

pub(crate) trait Media {
    const TYPES: &'static [&'static str];
    const HAS_RANGES: bool = true;
    /// Whether it has `Last-Modified`.
    const HAS_DATE: bool = false;
}

#[derive(Debug, Serialize)]
pub(crate) struct SearchResults<T> {
    pub(crate) data: Vec<T>,
    pub(crate) ok: bool,
}

/// Unnamed in the document, because it differs for each kind of result.
impl<T: Shape> Shape for SearchResults<T> {
    fn schema(schemas: &mut Schemas) -> Schema {
        json!({
            "type": "object",
            "properties": {"data": Vec::<T>::schema(schemas), "ok": bool::schema(schemas)},
            "required": ["data", "ok"],
        })
    }
}

pub(crate) enum Either<A, B> {
    First(A),
    Second(B),
}

impl<T> Created<T> {
    pub(crate) fn at(location: String, value: T) -> Self {
        Self { value, location }
    }
}

impl<M> From<Response> for File<M> {
    fn from(response: Response) -> Self {
        Self { response, media: PhantomData }
    }
}

impl<T: Serialize + Send + 'static> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        json::value(StatusCode::OK, Whole(self.0))
    }
}

impl<T: Serialize + Shorten + Send + 'static> IntoResponse for Shortened<T> {
    fn into_response(self) -> Response {
        json::value(StatusCode::OK, self.0)
    }
}

impl<T: Serialize + Send + 'static> IntoResponse for Created<T> {
    fn into_response(self) -> Response {
        let mut response = json::value(StatusCode::CREATED, Whole(self.value));
        // URLs are encoded, so they are always valid header values.
        if let Ok(location) = HeaderValue::try_from(self.location) {
            response.headers_mut().insert(LOCATION, location);
        }
        response
    }
}

impl<T: Serialize + Send + 'static> IntoResponse for Accepted<T> {
    fn into_response(self) -> Response {
        json::value(StatusCode::ACCEPTED, Whole(self.0))
    }
}

impl IntoResponse for Started {
    fn into_response(self) -> Response {
        StatusCode::ACCEPTED.into_response()
    }
}

impl IntoResponse for Done {
    fn into_response(self) -> Response {
        StatusCode::OK.into_response()
    }
}

impl IntoResponse for Scheduled {
    fn into_response(self) -> Response {
        (StatusCode::CREATED, [(LOCATION, self.location)]).into_response()
    }
}

impl IntoResponse for NoContent {
    fn into_response(self) -> Response {
        StatusCode::NO_CONTENT.into_response()
    }
}

impl<T: Serialize + Send + 'static> IntoResponse for Paged<T> {
    fn into_response(self) -> Response {
        json::page(Whole(self.value), self.headers)
    }
}

impl<T: Serialize + LongTexts + Send + 'static> IntoResponse for TextList<T> {
    fn into_response(self) -> Response {
        json::page(Texts(self.entries), self.headers)
    }
}

impl<T: Serialize + Send + 'static> IntoResponse for CursorPage<T> {
    fn into_response(self) -> Response {
        json::page(Whole(self.0), HeaderMap::new())
    }
}

fn response_of(content_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

impl IntoResponse for Html {
    fn into_response(self) -> Response {
        let mut response = response_of("text/html; charset=utf-8", Body::from(self.0));
        // A page of another site can send a form here.
        let policy = HeaderValue::from_static("default-src 'none'; sandbox");
        response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
        response
    }
}

impl IntoResponse for PlainText {
    fn into_response(self) -> Response {
        response_of("text/plain", Body::from(self.0))
    }
}

impl IntoResponse for EventStream {
    fn into_response(self) -> Response {
        let mut response = response_of(EVENT_STREAM, self.0);
        response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
        response
    }
}

impl<M> IntoResponse for File<M> {
    fn into_response(self) -> Response {
        self.response
    }
}

impl<A: IntoResponse, B: IntoResponse> IntoResponse for Either<A, B> {
    fn into_response(self) -> Response {
        match self {
            Self::First(response) => response.into_response(),
            Self::Second(response) => response.into_response(),
        }
    }
}

impl<T: Shape> Output for Json<T> {
    fn describe(about: &mut Description) {
        about.responses.push(Success::json(200, T::schema));
    }
}

impl<T: Shape> Output for Shortened<T> {
    fn describe(about: &mut Description) {
        about.responses.push(Success::json(200, T::schema));
    }
}

impl<T: Shape> Output for Created<T> {
    fn describe(about: &mut Description) {
        about.responses.push(Success::json(201, T::schema).with_headers(&["Location"]));
    }
}

impl<T: Shape> Output for Accepted<T> {
    fn describe(about: &mut Description) {
        about.responses.push(Success::json(202, T::schema));
    }
}

impl Output for Started {
    fn describe(about: &mut Description) {
        about.responses.push(Success::empty(202));
    }
}

impl Output for Done {
    fn describe(about: &mut Description) {
        about.responses.push(Success::empty(200));
    }
}

impl Output for Scheduled {
    fn describe(about: &mut Description) {
        about.responses.push(Success::empty(201).with_headers(&["Location"]));
    }
}

impl Output for NoContent {
    fn describe(about: &mut Description) {
        about.responses.push(Success::empty(204));
    }
}

impl<T: Shape> Output for Paged<T> {
    fn describe(about: &mut Description) {
        about.responses.push(Success::json(200, T::schema).with_headers(&["Link", "X-Total-Count"]));
    }
}

impl<T: Shape> Output for TextList<T> {
    fn describe(about: &mut Description) {
        <List<T> as Output>::describe(about);
    }
}

impl<T: Shape> Output for CursorPage<T> {
    fn describe(about: &mut Description) {
        about.responses.push(Success::json(200, T::schema));
    }
}

impl Output for Html {
    fn describe(about: &mut Description) {
        about.responses.push(Success::other(200, "text/html", String::schema));
    }
}

impl Output for PlainText {
    fn describe(about: &mut Description) {
        about.responses.push(Success::other(200, "text/plain", String::schema));
    }
}

impl Output for EventStream {
    fn describe(about: &mut Description) {
        about.responses.push(Success::other(200, EVENT_STREAM, String::schema));
    }
}

impl<M: Media> Output for File<M> {
    fn describe(about: &mut Description) {
        const WHOLE: &[&str] =
            &["Accept-Ranges", "Content-Disposition", "Content-Transfer-Encoding", "ETag", "Last-Modified"];
        const RANGE: &[&str] = &[
            "Accept-Ranges",
            "Content-Disposition",
            "Content-Range",
            "Content-Transfer-Encoding",
            "ETag",
            "Last-Modified",
        ];
        let without = usize::from(!M::HAS_DATE);
        let of_whole = if M::HAS_RANGES { &WHOLE[..WHOLE.len() - without] } else { &["ETag"] };
        let of_range = &RANGE[..RANGE.len() - without];
        for media_type in M::TYPES {
            about.responses.push(Success::other(200, media_type, bytes_schema).with_headers(of_whole));
            if M::HAS_RANGES {
                about.responses.push(Success::other(206, media_type, bytes_schema).with_headers(of_range));
            }
        }
        if M::HAS_RANGES {
            about.responses.push(Success::empty(416).with_headers(&["Content-Range"]));
        }
    }
}

impl<A: Output, B: Output> Output for Either<A, B> {
    fn describe(about: &mut Description) {
        A::describe(about);
        B::describe(about);
    }
}

#[cfg(test)]
mod tests;
