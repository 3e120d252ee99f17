//! The API documentation: the OpenAPI document, a reference page to which every error links, a
//! viewer for sending requests, and the guide.
//!
//! The page is HTML and needs no script. All files are embedded, and the page's policy forbids
//! loading anything else.

mod guide;
mod page;
mod schema;

use std::sync::LazyLock;

use axum::Router;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;

use crate::http::embedded_file::EmbeddedFile;

macro_rules! viewer {
    ($file:literal) => {
        concat!("/docs/api/swagger-ui-5.35.0/", $file)
    };
}

macro_rules! viewer_bytes {
    ($file:literal) => {
        include_bytes!(concat!("../assets/swagger-ui-5.35.0/", $file, ".gz"))
    };
}

const DOCUMENT: &str = include_str!("../../docs/openapi.json");
const CSS: &str = "text/css; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const JSON: &str = "application/json; charset=UTF-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// Files by path, each built on first use. They are not operations, so they have no
/// [`crate::Route`].
static FILES: [(&str, LazyLock<EmbeddedFile>); 8] = [
    ("/docs/api", LazyLock::new(|| EmbeddedFile::rendered(HTML, &page::render(&document())))),
    ("/docs/api/guide", LazyLock::new(|| EmbeddedFile::rendered(HTML, &guide::page()))),
    ("/docs/api/api.css", LazyLock::new(|| EmbeddedFile::text(CSS, include_str!("../assets/api.css")))),
    ("/docs/api/api.js", LazyLock::new(|| EmbeddedFile::text(JAVASCRIPT, include_str!("../assets/api.js")))),
    (
        viewer!("swagger-ui-bundle.js"),
        LazyLock::new(|| EmbeddedFile::compressed(JAVASCRIPT, viewer_bytes!("swagger-ui-bundle.js"))),
    ),
    (viewer!("swagger-ui.css"), LazyLock::new(|| EmbeddedFile::compressed(CSS, viewer_bytes!("swagger-ui.css")))),
    (
        viewer!("LICENSE.txt"),
        LazyLock::new(|| EmbeddedFile::text(TEXT, include_str!("../assets/swagger-ui-5.35.0/LICENSE.txt"))),
    ),
    ("/api/v1/openapi.json", LazyLock::new(|| EmbeddedFile::text(JSON, DOCUMENT))),
];

/// Redirects that drop a trailing slash, with which the relative links of a page would break.
const WITH_SLASH: [(&str, &str); 2] = [("/docs/api/", "../api"), ("/docs/api/guide/", "../guide")];

fn document() -> serde_json::Value {
    serde_json::from_str(DOCUMENT).expect("a test checks that the document is JSON")
}

pub(crate) fn paths() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(path, _)| *path)
}

pub(crate) fn router() -> Router {
    let files = FILES.iter().fold(Router::new(), |router, (path, file)| {
        router.route(path, get(move |headers: HeaderMap| async move { file.respond(&headers) }))
    });
    WITH_SLASH.into_iter().fold(files, |router, (path, page)| {
        router.route(path, get(move || async move { (StatusCode::MOVED_PERMANENTLY, [(LOCATION, page)]) }))
    })
}

#[cfg(test)]
mod tests;
