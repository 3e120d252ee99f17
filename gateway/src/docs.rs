//! The page that every error points to: the API's documentation, as it ships with this version.

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

const API: &str = include_str!("../../docs/api.md");

/// Path of the documentation. It carries out no operation of the services, so it is no [`crate::Route`].
pub(crate) const PATH: &str = "/docs/api";

/// Returns the router that serves [`PATH`].
pub(crate) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new().route(PATH, get(api))
}

async fn api() -> Response {
    ([(CONTENT_TYPE, "text/plain; charset=utf-8")], API).into_response()
}
