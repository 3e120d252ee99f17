//! The responses of handlers as types, so that a signature tells the status and the value.
//!
//! Not here: their bytes, which [`super::json`] writes.

use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use ferrite_api_types::schema::Shape;
use serde::Serialize;

use super::describe::{Description, Output, SchemaFn, Success};
use super::json;

/// 200 with a value.
pub(crate) struct Json<T>(pub(crate) T);

/// 201 with a value.
pub(crate) struct Created<T>(pub(crate) T);

/// 204, for an operation without a result.
pub(crate) struct NoContent;

/// 200 with a page of a list.
pub(crate) struct List<T> {
    pub(super) entries: Vec<T>,
    /// Those of the page.
    pub(super) headers: HeaderMap,
}

impl<T: Serialize + Send + 'static> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        json::ok(self.0)
    }
}

impl<T: Serialize + Send + 'static> IntoResponse for Created<T> {
    fn into_response(self) -> Response {
        json::created(self.0)
    }
}

impl IntoResponse for NoContent {
    fn into_response(self) -> Response {
        json::no_content()
    }
}

impl<T: Serialize + Send + 'static> IntoResponse for List<T> {
    fn into_response(self) -> Response {
        json::page(self.entries, self.headers)
    }
}

fn success(status: u16, schema: Option<SchemaFn>) -> Success {
    Success { status, schema, is_page: false }
}

impl<T: Shape> Output for Json<T> {
    fn describe(about: &mut Description) {
        about.responses.push(success(200, Some(T::schema)));
    }
}

impl<T: Shape> Output for Created<T> {
    fn describe(about: &mut Description) {
        about.responses.push(success(201, Some(T::schema)));
    }
}

impl Output for NoContent {
    fn describe(about: &mut Description) {
        about.responses.push(success(204, None));
    }
}

impl<T: Shape> Output for List<T> {
    fn describe(about: &mut Description) {
        about.responses.push(Success { is_page: true, ..success(200, Some(Vec::<T>::schema)) });
    }
}
