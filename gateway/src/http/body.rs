//! Request bodies with JSON: collected within limits of size and time, and only when a handler asks for them.
//!
//! Not here: JSON values ([`super::json_value`]) and the fields of an object ([`super::fields`]).

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use futures_util::StreamExt;
use tokio::time::Instant;

use super::body_limits::{BodyLimits, LargeBodyPermit, MAX_JSON_BYTES};
use super::error::ApiError;
use super::fields::FieldReader;
use super::json_value::{Value, parse_object, parse_object_or_list};

/// Slowest average rate, in bytes per second, of a body whose sender pauses for longer than [`BodyLimits`] allow in all.
const MIN_BYTES_PER_SECOND: usize = 1024;

/// A request body that is not read yet: a handler checks permissions first.
pub(crate) struct JsonBody {
    headers: HeaderMap,
    body: Body,
}

impl<S: Send + Sync> FromRequest<S> for JsonBody {
    type Rejection = Infallible;

    async fn from_request(request: Request, _: &S) -> Result<Self, Infallible> {
        let (parts, body) = request.into_parts();
        Ok(Self { headers: parts.headers, body })
    }
}

impl JsonBody {
    /// Reads the JSON object in the body. An empty body and `null` are an empty object.
    ///
    /// # Errors
    /// 415 for another content type, 413 above `max_bytes`, 408 for a client that sends too slowly, 503 when too many large
    /// bodies are in memory, 400 for what is not JSON, 422 for JSON that is not an object.
    pub(crate) async fn fields(self, limits: &BodyLimits, max_bytes: usize) -> Result<FieldReader, ApiError> {
        self.parse(limits, max_bytes, parse_object).await
    }

    /// Reads the JSON object in the body, or a list in the body as an object with that list in its field `name`.
    ///
    /// # Errors
    /// As [`Self::fields`].
    pub(crate) async fn fields_or_list(
        self,
        limits: &BodyLimits,
        max_bytes: usize,
        name: &str,
    ) -> Result<FieldReader, ApiError> {
        self.parse(limits, max_bytes, |bytes| parse_object_or_list(bytes, name)).await
    }

    /// Returns the media type of the body in lower case, without parameters; empty if the client names none.
    pub(crate) fn media_type(&self) -> String {
        let value = self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// Reads the body as it is, whatever its content type.
    ///
    /// # Errors
    /// 413, 408 and 503 as [`Self::fields`], 400 for a body that ends early.
    pub(crate) async fn bytes(
        self,
        limits: &BodyLimits,
        max_bytes: usize,
    ) -> Result<(Vec<u8>, LargeBodyPermit), ApiError> {
        self.collect(limits, max_bytes).await
    }

    async fn parse(
        self,
        limits: &BodyLimits,
        max_bytes: usize,
        parse: impl FnOnce(&[u8]) -> Result<BTreeMap<String, Value>, ApiError>,
    ) -> Result<FieldReader, ApiError> {
        if !is_json(&self.headers) {
            return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content type must be JSON"));
        }
        let (bytes, permit) = self.collect(limits, max_bytes).await?;
        Ok(FieldReader::new(parse(&bytes)?, permit))
    }

    async fn collect(self, limits: &BodyLimits, max_bytes: usize) -> Result<(Vec<u8>, LargeBodyPermit), ApiError> {
        let declared = self.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
        if declared.is_some_and(|declared| declared > max_bytes) {
            return Err(ApiError::too_large());
        }
        let mut permit = LargeBodyPermit::default();
        let mut bytes = Vec::with_capacity(declared.unwrap_or(0).min(MAX_JSON_BYTES));
        let (mut frames, started) = (self.body.into_data_stream(), Instant::now());
        loop {
            // Each kibibyte that arrived extends the deadline of the whole body by a second.
            let earned = Duration::from_secs((bytes.len() / MIN_BYTES_PER_SECOND) as u64);
            let left = (limits.max_pause + earned).saturating_sub(started.elapsed()).min(limits.max_pause);
            let frame = tokio::time::timeout(left, frames.next())
                .await
                .map_err(|_| ApiError::new(StatusCode::REQUEST_TIMEOUT, "request body did not arrive in time"))?;
            let Some(frame) = frame else { return Ok((bytes, permit)) };
            let frame = frame.map_err(|_| ApiError::bad_request("request body ended early"))?;
            let total = bytes.len() + frame.len();
            if total > max_bytes {
                return Err(ApiError::too_large());
            }
            if total > MAX_JSON_BYTES && permit.is_empty() {
                permit = limits.acquire_large()?;
                bytes.reserve_exact(declared.unwrap_or(total).saturating_sub(bytes.len()));
            }
            bytes.extend_from_slice(&frame);
        }
    }
}

/// Returns whether the content type is one of JSON. A missing one counts as JSON.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE) else { return true };
    value.to_str().is_ok_and(|value| value.is_empty() || value.to_ascii_lowercase().contains("json"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::body_limits::MAX_FILE_BODY_BYTES;

    #[test]
    fn json_is_any_type_that_says_so() {
        for (value, expected) in [
            ("application/json", true),
            ("APPLICATION/JSON; charset=utf-8", true),
            ("application/vnd.x+json", true),
            ("text/plain", false),
            ("multipart/form-data", false),
        ] {
            let mut headers = HeaderMap::new();
            assert!(is_json(&headers));
            headers.insert(CONTENT_TYPE, value.parse().unwrap());
            assert_eq!(is_json(&headers), expected, "{value}");
        }
    }

    fn limits() -> BodyLimits {
        BodyLimits::new(1, Duration::from_secs(30))
    }

    async fn read(headers: &[(&'static str, &str)], body: Body, max_bytes: usize) -> Result<FieldReader, u16> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        let body = JsonBody { headers: map, body };
        body.fields(&limits(), max_bytes).await.map_err(|error| error.status.as_u16())
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
    async fn a_body_that_breaks_off_is_400_and_another_type_415() {
        let broken = futures_util::stream::iter([Ok("{"), Err(std::io::Error::other("gone"))]);
        assert_eq!(read(&[], Body::from_stream(broken), MAX_JSON_BYTES).await.unwrap_err(), 400);
        let form = [("content-type", "application/x-www-form-urlencoded")];
        assert_eq!(read(&form, Body::from("name=x"), MAX_JSON_BYTES).await.unwrap_err(), 415);
    }

    #[tokio::test]
    async fn large_bodies_wait_for_no_permit_and_return_theirs() {
        let limits = limits();
        let large = || JsonBody { headers: HeaderMap::new(), body: Body::from(vec![b' '; MAX_JSON_BYTES + 1]) };
        let held = large().fields(&limits, MAX_FILE_BODY_BYTES).await.unwrap();
        assert_eq!(large().fields(&limits, MAX_FILE_BODY_BYTES).await.unwrap_err().status.as_u16(), 503);
        let permit = held.finish().unwrap();
        assert!(large().fields(&limits, MAX_FILE_BODY_BYTES).await.is_err());
        drop(permit);
        assert!(large().fields(&limits, MAX_FILE_BODY_BYTES).await.is_ok());
    }
}
