//! The page that every error points to: the API's documentation, as it ships with this version.

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use crate::routes::routes;
use crate::state::Gateway;

const API: &str = include_str!("../../docs/api.md");

routes! { Gateway:
    "/docs/api" => get api;
}

async fn api() -> Response {
    ([(CONTENT_TYPE, "text/plain; charset=utf-8")], API).into_response()
}
