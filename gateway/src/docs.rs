//! The API's documentation, to which every error links.

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

const API: &str = include_str!("../../docs/api.md");

/// Path of the documentation. It carries out no operation of the services, so it is no [`crate::Route`].
pub(crate) const PATH: &str = "/docs/api";

/// Returns the router that serves [`PATH`].
pub(crate) fn router() -> Router {
    Router::new().route(PATH, get(api))
}

async fn api() -> Response {
    ([(CONTENT_TYPE, "text/plain; charset=utf-8")], API).into_response()
}
