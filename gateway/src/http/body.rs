//! Request bodies with JSON. A handler asks for the body after it has checked permissions; size and
//! time are limited.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{Extensions, HeaderMap, StatusCode};
use ferrite_api_types::schema::Shape;
use ferrite_core::headers::single_header;
use futures_util::StreamExt;
use http_body::Body as _;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::body_limits::{BodyLimits, BodyPermit, MAX_JSON_BYTES, MAX_UNVERIFIED_BODY_BYTES};
use super::describe::{BodyDescription, Description, Input};
use super::error::ApiError;
use super::json_value::parse_object;

/// Minimum average rate of a body whose sender uses up its pause (see [`BodyLimits`]).
const MIN_BYTES_PER_SECOND: usize = 8 * 1024;
/// Minimum average rate of the part above [`MAX_JSON_BYTES`], while the body holds a slot that
/// others wait for.
const MIN_LARGE_BYTES_PER_SECOND: usize = 32 * 1024;

/// Extension of a request with a mistake in its headers: reading the body fails with this error. So
/// the caller learns about it when it would learn about a mistake in the body, after all checks of
/// credentials and permissions.
#[derive(Clone, Debug)]
pub(crate) struct RefusedBody(pub(crate) ApiError);

impl RefusedBody {
    pub(super) fn check(extensions: &Extensions) -> Result<(), ApiError> {
        extensions.get::<Self>().map_or(Ok(()), |Self(error)| Err(error.clone()))
    }
}

/// A request body that is not read yet: a handler checks permissions first.
pub(crate) struct JsonBody {
    headers: HeaderMap,
    extensions: Extensions,
    body: Body,
}

impl JsonBody {
    pub(super) fn of(request: Request) -> Self {
        let (parts, body) = request.into_parts();
        Self { headers: parts.headers, extensions: parts.extensions, body }
    }

    fn declared_bytes(&self) -> Option<usize> {
        let header = self.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        header.or_else(|| usize::try_from(self.body.size_hint().exact()?).ok())
    }

    /// Whether the body can exceed the limit for clients that are not authenticated.
    pub(crate) fn may_be_long(&self) -> bool {
        self.declared_bytes().is_none_or(|declared| declared > MAX_UNVERIFIED_BODY_BYTES)
    }

    /// Returns the media type in lower case, without parameters; empty if there is none.
    pub(crate) fn media_type(&self) -> String {
        essence(self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default())
    }

    /// Reads the JSON object in the body. With `list_field`, an array counts as an object with the
    /// array in that field. An empty body and `null` count as an empty object.
    ///
    /// # Errors
    /// 415 for another content type, charset or encoding, 413 above `max_bytes`, 401 for a long body
    /// with invalid credentials, 408 for a client that sends too slowly, 503 if bodies take too much
    /// memory, 400 for invalid JSON, 422 for JSON that is not an object.
    pub(super) async fn object(
        self,
        limits: &BodyLimits,
        max_bytes: usize,
        list_field: Option<&str>,
    ) -> Result<(Map<String, Value>, BodyPermit), ApiError> {
        if !is_json(&self.headers) {
            return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content type must be JSON"));
        }
        if !is_utf8(&self.headers) {
            return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "charset must be UTF-8"));
        }
        let (bytes, permit) = self.bytes(limits, max_bytes).await?;
        Ok((parse_object(&bytes, list_field)?, permit))
    }

    /// Reads the raw body, whatever its content type.
    ///
    /// # Errors
    /// The error of [`RefusedBody`]. 415 for another encoding, 413, 401, 408 and 503 as
    /// [`Self::object`], 400 for a truncated body.
    pub(crate) async fn bytes(self, limits: &BodyLimits, max_bytes: usize) -> Result<(Vec<u8>, BodyPermit), ApiError> {
        RefusedBody::check(&self.extensions)?;
        check_encoding(&self.headers)?;
        let declared = self.declared_bytes();
        if declared.is_some_and(|declared| declared > max_bytes) {
            return Err(ApiError::too_large());
        }
        let Self { headers, body, .. } = self;
        let mut permit = limits.permit(&headers);
        if declared.is_some_and(|declared| declared > MAX_UNVERIFIED_BODY_BYTES) {
            permit.check(limits, &headers).await?;
        }
        let (mut frames, mut deadline) = (body.into_data_stream(), BodyDeadline::new(limits.max_pause));
        // Grows with the received bytes: the declared ones may never arrive.
        let mut bytes = Vec::new();
        loop {
            let frame = tokio::time::timeout(deadline.left(bytes.len()), frames.next())
                .await
                .map_err(|_| ApiError::new(StatusCode::REQUEST_TIMEOUT, "request body did not arrive in time"))?;
            let Some(frame) = frame else { return Ok((bytes, permit)) };
            let frame = frame.map_err(|_| ApiError::bad_request("request body ended early"))?;
            let total = bytes.len() + frame.len();
            if total > max_bytes {
                return Err(ApiError::too_large());
            }
            if total > MAX_UNVERIFIED_BODY_BYTES && !permit.is_checked {
                permit.check(limits, &headers).await?;
            }
            match permit.grow_to(limits, total) {
                Ok(()) => {}
                // The share of unauthenticated clients is used up: an authenticated client has
                // more.
                Err(_) if !permit.is_checked => {
                    permit.check(limits, &headers).await?;
                    permit.grow_to(limits, total)?;
                }
                Err(error) => return Err(error),
            }
            if permit.is_large() {
                deadline.begin_large();
            }
            bytes.extend_from_slice(&frame);
        }
    }
}

/// The body of a POST that takes none. A handler reads it as any other body, for [`RefusedBody`].
pub(crate) struct NoBody(Extensions);

impl<S: Send + Sync> FromRequest<S> for NoBody {
    type Rejection = Infallible;

    async fn from_request(request: Request, _: &S) -> Result<Self, Infallible> {
        Ok(Self(request.into_parts().0.extensions))
    }
}

impl NoBody {
    /// Ignores what the client sent.
    pub(crate) fn read(&self) -> Result<(), ApiError> {
        RefusedBody::check(&self.0)
    }
}

impl Input for NoBody {}

/// A body with a text of at most `MAX_BYTES` bytes, of any content type, that is not read yet.
pub(crate) struct TextBody<const MAX_BYTES: usize>(JsonBody);

impl<S: Send + Sync, const MAX_BYTES: usize> FromRequest<S> for TextBody<MAX_BYTES> {
    type Rejection = Infallible;

    async fn from_request(request: Request, _: &S) -> Result<Self, Infallible> {
        Ok(Self(JsonBody::of(request)))
    }
}

impl<const MAX_BYTES: usize> TextBody<MAX_BYTES> {
    /// Reads the body. The caller holds the permit until the request is done.
    pub(crate) async fn read(self, limits: &BodyLimits) -> Result<(Vec<u8>, BodyPermit), ApiError> {
        self.0.bytes(limits, MAX_BYTES).await
    }
}

impl<const MAX_BYTES: usize> Input for TextBody<MAX_BYTES> {
    fn describe(about: &mut Description) {
        let (media_type, schema) = ("text/plain", String::schema);
        about.bodies.push(BodyDescription { media_type, schema, max_bytes: Some(MAX_BYTES) });
    }
}

/// The time limit of a body: the total pause that a client can make, plus the received bytes
/// divided by a minimum rate.
struct BodyDeadline {
    max_pause: Duration,
    started: Instant,
    /// When the body took a slot for large bodies. Time left over from before does not count.
    large_since: Option<Instant>,
}

impl BodyDeadline {
    fn new(max_pause: Duration) -> Self {
        Self { max_pause, started: Instant::now(), large_since: None }
    }

    fn begin_large(&mut self) {
        self.large_since.get_or_insert_with(Instant::now);
    }

    /// Returns the time left for the next bytes, after the first `received`.
    fn left(&self, received: usize) -> Duration {
        let (since, earned) = match self.large_since {
            Some(since) => (since, received.saturating_sub(MAX_JSON_BYTES) / MIN_LARGE_BYTES_PER_SECOND),
            None => (self.started, received / MIN_BYTES_PER_SECOND),
        };
        let allowed = self.max_pause + Duration::from_secs(earned as u64);
        allowed.saturating_sub(since.elapsed()).min(self.max_pause)
    }
}

/// Whether the content type is JSON. A missing one counts as JSON, a repeated one does not.
fn is_json(headers: &HeaderMap) -> bool {
    let Ok(value) = single_header(headers, CONTENT_TYPE) else { return false };
    let Some(value) = value else { return true };
    value.to_str().is_ok_and(|value| value.is_empty() || is_json_type(&essence(value)))
}

/// Whether this is a media type of JSON. Excludes all types that pages of other sites can send
/// without a preflight, whatever their parameters.
fn is_json_type(media_type: &str) -> bool {
    matches!(media_type, "application/json" | "application/x-json" | "text/json")
        || media_type
            .strip_prefix("application/")
            .is_some_and(|name| name.len() > "+json".len() && name.ends_with("+json"))
}

/// Whether the content type has no charset, or UTF-8, the only one of JSON (RFC 8259, section 8.1).
fn is_utf8(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    content_type.split(';').skip(1).all(|parameter| match parameter.split_once('=') {
        Some((name, value)) if name.trim().eq_ignore_ascii_case("charset") => {
            let value = value.trim().trim_matches('"');
            value.eq_ignore_ascii_case("utf-8") || value.eq_ignore_ascii_case("utf8")
        }
        Some(_) | None => true,
    })
}

/// Checks that a body is not compressed: nothing here decompresses it.
pub(super) fn check_encoding(headers: &HeaderMap) -> Result<(), ApiError> {
    let is_plain = |value: &[u8]| value.is_empty() || value.eq_ignore_ascii_case(b"identity");
    let mut encodings =
        headers.get_all(CONTENT_ENCODING).iter().flat_map(|list| list.as_bytes().split(|byte| *byte == b','));
    if encodings.all(|encoding| is_plain(encoding.trim_ascii())) { Ok(()) } else { Err(ApiError::compressed()) }
}

/// Returns the media type of a content type in lower case, without parameters.
fn essence(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::http::HeaderValue;
    use axum::http::header::AUTHORIZATION;
    use axum::response::IntoResponse;

    use super::*;
    use crate::http::body_limits::{CredentialCheck, MAX_FILE_BODY_BYTES};

    #[test]
    fn json_is_any_type_that_says_so() {
        for (value, expected) in [
            ("", true),
            ("application/json", true),
            ("APPLICATION/JSON; charset=utf-8", true),
            (" application/json ;charset=utf-8", true),
            ("application/vnd.x+json", true),
            ("application/Merge-Patch+JSON", true),
            ("application/x-json", true),
            ("text/json", true),
            ("text/plain", false),
            ("multipart/form-data", false),
            // Pages of other sites may send these three types without a preflight.
            ("text/plain; json", false),
            ("text/plain; charset=application/json", false),
            ("multipart/form-data; boundary=application/json", false),
            ("application/x-www-form-urlencoded;application/json", false),
            ("application/json, text/plain", false),
            ("application/jsonp", false),
            ("application/+json", false),
            ("text/x+json", false),
            ("json", false),
            (";", false),
        ] {
            let mut headers = HeaderMap::new();
            assert!(is_json(&headers));
            headers.insert(CONTENT_TYPE, value.parse().unwrap());
            assert_eq!(is_json(&headers), expected, "{value}");
            headers.append(CONTENT_TYPE, value.parse().unwrap());
            assert!(!is_json(&headers), "{value} twice");
        }
    }

    const MAX_PAUSE: Duration = Duration::from_secs(30);

    fn limits() -> BodyLimits {
        BodyLimits::new(1, 1, MAX_PAUSE)
    }

    async fn read(headers: &[(&'static str, &str)], body: Body, max_bytes: usize) -> Result<Map<String, Value>, u16> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        let body = JsonBody { headers: map, extensions: Extensions::default(), body };
        let read = body.object(&limits(), max_bytes, None).await;
        read.map(|(object, _permit)| object).map_err(|error| error.status.as_u16())
    }

    fn endless() -> Body {
        Body::from_stream(futures_util::stream::repeat_with(|| Ok::<_, Infallible>(vec![b' '; 64 * 1024])))
    }

    #[tokio::test]
    async fn bodies_above_their_limit_are_413_whether_they_declare_it_or_not() {
        let declared = [("content-length", "4194305")];
        assert_eq!(read(&declared, Body::empty(), MAX_JSON_BYTES).await.unwrap_err(), 413);
        assert_eq!(read(&[], endless(), MAX_JSON_BYTES).await.unwrap_err(), 413);
        assert_eq!(read(&[], endless(), MAX_FILE_BODY_BYTES).await.unwrap_err(), 413);
        let wrong = [("content-length", "2")];
        assert_eq!(read(&wrong, endless(), MAX_JSON_BYTES).await.unwrap_err(), 413);
    }

    #[tokio::test]
    async fn json_is_utf8_and_not_compressed() {
        for (name, value, expected) in [
            ("content-type", "application/json", None),
            ("content-type", "application/json; charset=UTF-8", None),
            ("content-type", "application/json;charset=\"utf8\"; q=1", None),
            ("content-type", "text/json; Charset=iso-8859-1", Some(415)),
            ("content-type", "application/json; charset=utf-16", Some(415)),
            ("content-encoding", "", None),
            ("content-encoding", "Identity", None),
            ("content-encoding", "gzip", Some(415)),
            ("content-encoding", "identity, br", Some(415)),
        ] {
            let read = read(&[(name, value)], Body::from("{}"), MAX_JSON_BYTES).await;
            assert_eq!(read.err(), expected, "{name}: {value}");
        }
        let headers = HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_static("gzip"))]);
        let refused = check_encoding(&headers).unwrap_err().into_response();
        assert_eq!(refused.headers()["accept-encoding"], "identity");
    }

    #[tokio::test]
    async fn a_refused_body_is_not_read() {
        let error = ApiError::invalid_field("If-Match", "invalid", "is not supported");
        let request = |body: Body| {
            let mut request = Request::new(body);
            request.extensions_mut().insert(RefusedBody(error.clone()));
            request
        };
        let read = JsonBody::of(request(endless())).object(&limits(), MAX_JSON_BYTES, None).await;
        assert_eq!(read.err().map(|error| error.status.as_u16()), Some(422));
        let Ok(none) = <NoBody as FromRequest<()>>::from_request(request(Body::empty()), &()).await;
        assert_eq!(none.read().unwrap_err().status.as_u16(), 422);
        let Ok(none) = <NoBody as FromRequest<()>>::from_request(Request::new(endless()), &()).await;
        assert!(none.read().is_ok());
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_400_and_another_type_415() {
        let broken = futures_util::stream::iter([Ok("{"), Err(std::io::Error::other("gone"))]);
        assert_eq!(read(&[], Body::from_stream(broken), MAX_JSON_BYTES).await.unwrap_err(), 400);
        let form = [("content-type", "application/x-www-form-urlencoded")];
        assert_eq!(read(&form, Body::from("name=x"), MAX_JSON_BYTES).await.unwrap_err(), 415);
    }

    /// Returns limits that know the token `good` of user 7, and the number of checks.
    fn checked() -> (BodyLimits, Arc<AtomicUsize>) {
        let count = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&count);
        let check: CredentialCheck = Arc::new(move |headers: &HeaderMap| {
            counter.fetch_add(1, Ordering::Relaxed);
            let result = match headers.get(AUTHORIZATION) {
                None => Ok(None),
                Some(value) if value == "token good" => Ok(Some(7)),
                Some(_) => Err(ApiError::bad_credentials()),
            };
            Box::pin(std::future::ready(result))
        });
        (limits().checked_by(check), count)
    }

    /// Sends a body in frames of 1 KiB and returns how many were read, with the status.
    async fn frames_read(limits: &BodyLimits, token: &'static str, is_declared: bool, frames: usize) -> (usize, u16) {
        let read = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&read);
        let body = futures_util::stream::iter(0..frames).map(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Infallible>(vec![b' '; 1024])
        });
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::from_static(token));
        if is_declared {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(frames * 1024));
        }
        let body = JsonBody { headers, extensions: Extensions::default(), body: Body::from_stream(body) };
        let status =
            body.object(limits, MAX_JSON_BYTES, None).await.map_or_else(|error| error.status.as_u16(), |_| 200);
        (read.load(Ordering::Relaxed), status)
    }

    #[tokio::test]
    async fn a_long_body_is_read_only_with_a_valid_credential() {
        let (limits, checks) = checked();
        for (token, is_declared, frames, expected) in [
            ("token bad", true, 16, (16, 200)),
            ("token bad", false, 16, (16, 200)),
            ("token bad", true, 17, (0, 401)),
            ("token bad", false, 100, (17, 401)),
            ("token good", true, 100, (100, 200)),
            ("token good", false, 100, (100, 200)),
        ] {
            assert_eq!(frames_read(&limits, token, is_declared, frames).await, expected, "{token} {frames}");
        }
        assert_eq!(checks.load(Ordering::Relaxed), 4, "short bodies cost no call");
    }

    #[test]
    fn the_time_for_a_body_follows_from_its_bytes() {
        let started = Instant::now();
        let is_about = |left: Duration, seconds: u64| {
            let expected = Duration::from_secs(seconds);
            left <= expected && left + Duration::from_secs(1) > expected
        };
        let mut deadline = BodyDeadline { max_pause: Duration::ZERO, started, large_since: None };
        assert_eq!((deadline.left(0), deadline.left(MIN_BYTES_PER_SECOND)), (Duration::ZERO, Duration::ZERO));
        deadline.max_pause = MAX_PAUSE;
        assert!(is_about(deadline.left(0), 30) && is_about(deadline.left(MAX_JSON_BYTES), 30));
        // The pause is used up: each second needs its bytes.
        deadline.max_pause = Duration::from_millis(1);
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(deadline.left(MIN_BYTES_PER_SECOND - 1), Duration::ZERO);
        assert_eq!(deadline.left(MIN_BYTES_PER_SECOND), deadline.max_pause);
        // Bytes that arrived fast before the slot was taken earn no time.
        deadline.begin_large();
        std::thread::sleep(Duration::from_millis(2));
        deadline.begin_large();
        assert_eq!(deadline.left(MAX_JSON_BYTES), Duration::ZERO);
        assert_eq!(deadline.left(MAX_JSON_BYTES + MIN_LARGE_BYTES_PER_SECOND), deadline.max_pause);
    }

    #[tokio::test]
    async fn a_text_has_any_content_type_and_a_limit() {
        let read = async |text: &'static str| {
            let mut request = Request::new(Body::from(text));
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("image/png"));
            let Ok(body) = TextBody::<3>::from_request(request, &()).await;
            body.read(&limits()).await.map(|(bytes, _)| bytes).map_err(|error| error.status.as_u16())
        };
        assert_eq!((read("abc").await, read("abcd").await), (Ok(b"abc".to_vec()), Err(413)));
        let mut about = Description::default();
        TextBody::<3>::describe(&mut about);
        assert_eq!((about.bodies[0].media_type, about.bodies[0].max_bytes), ("text/plain", Some(3)));
    }

    #[tokio::test]
    async fn a_body_takes_memory_as_it_comes() {
        let body = || Body::from_stream(futures_util::stream::iter([Ok::<_, Infallible>("{}")]));
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_LENGTH, HeaderValue::from(MAX_FILE_BODY_BYTES));
        let body = JsonBody { headers, extensions: Extensions::default(), body: body() };
        let (bytes, _) = body.bytes(&limits(), MAX_FILE_BODY_BYTES).await.unwrap();
        assert!(bytes.capacity() < 1024, "{}", bytes.capacity());
    }

    #[tokio::test]
    async fn large_bodies_wait_for_no_permit_and_return_theirs() {
        let limits = limits();
        let large = || JsonBody::of(Request::new(Body::from(vec![b' '; MAX_JSON_BYTES + 1])));
        let read = async || large().object(&limits, MAX_FILE_BODY_BYTES, None).await;
        let (_, permit) = read().await.unwrap();
        assert_eq!(read().await.unwrap_err().status.as_u16(), 503);
        drop(permit);
        assert!(read().await.is_ok());
    }
}
