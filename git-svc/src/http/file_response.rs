//! Responses to a request for a file: all of it, a range, not modified, or range not satisfiable.

use std::ops::Range;

use axum::{body::Body, response::Response};
use http::{
    HeaderMap, HeaderValue, StatusCode,
    header::{self, HeaderName},
};

use super::headers::insert_header;

/// Headers of every response about one file.
pub(super) struct FileHead(HeaderMap);

impl FileHead {
    /// Creates the headers for a file with this entity tag, including its quotes.
    pub(super) fn new(etag: &str) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        insert_header(&mut headers, header::ETAG, etag);
        Self(headers)
    }

    /// Adds a header with a plain ASCII value.
    pub(super) fn with(mut self, name: &'static str, value: &str) -> Self {
        insert_header(&mut self.0, HeaderName::from_static(name), value);
        self
    }

    pub(super) fn not_modified(self) -> Response {
        self.response(StatusCode::NOT_MODIFIED, Body::empty())
    }

    /// The whole file. `size` is in bytes, if known.
    pub(super) fn whole(mut self, body: Body, size: Option<u64>) -> Response {
        self.0.extend(size.map(|size| (header::CONTENT_LENGTH, HeaderValue::from(size))));
        self.response(StatusCode::OK, body)
    }

    pub(super) fn part(mut self, body: Body, range: Range<u64>, size: u64) -> Response {
        let Range { start, end } = range;
        self.0.insert(header::CONTENT_LENGTH, HeaderValue::from(end - start));
        insert_header(&mut self.0, header::CONTENT_RANGE, &format!("bytes {start}-{}/{size}", end - 1));
        self.response(StatusCode::PARTIAL_CONTENT, body)
    }

    /// No byte of the range is in a file of `size` bytes.
    pub(super) fn not_satisfiable(mut self, size: u64) -> Response {
        insert_header(&mut self.0, header::CONTENT_RANGE, &format!("bytes */{size}"));
        self.response(StatusCode::RANGE_NOT_SATISFIABLE, Body::empty())
    }

    fn response(self, status: StatusCode, body: Body) -> Response {
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = self.0;
        response
    }
}
