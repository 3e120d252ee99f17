//! The page that every error points to: the API's documentation, as it ships with this version.

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;

const API: &str = include_str!("../../docs/api.md");

pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new().route("/docs/api", get(|| async { ([(CONTENT_TYPE, "text/plain; charset=utf-8")], API) }))
}
