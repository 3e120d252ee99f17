//! The API's documentation: its OpenAPI document, the page of it to which every error links, the viewer that the page opens to send a
//! request, and the guide.
//!
//! The page is HTML that needs no script. All files are part of the program, and the policy of the page lets it load nothing else.

mod file;
mod page;
mod schema;

use std::sync::LazyLock;

use axum::Router;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;

use self::file::File;

/// Makes the path of a file of the viewer, whose version is part of it.
macro_rules! viewer {
    ($file:literal) => {
        concat!("/docs/api/swagger-ui-5.35.0/", $file)
    };
}

/// Returns a compressed file of the viewer.
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

/// The files by their paths, each made when it is first read. They carry out no operation of the services, so their paths are no
/// [`crate::Route`].
static FILES: [(&str, LazyLock<File>); 8] = [
    ("/docs/api", LazyLock::new(|| File::rendered(HTML, &page::render(&document())))),
    ("/docs/api/guide", LazyLock::new(|| File::text(TEXT, include_str!("../../docs/api.md")))),
    ("/docs/api/api.css", LazyLock::new(|| File::text(CSS, include_str!("../assets/api.css")))),
    ("/docs/api/api.js", LazyLock::new(|| File::text(JAVASCRIPT, include_str!("../assets/api.js")))),
    (
        viewer!("swagger-ui-bundle.js"),
        LazyLock::new(|| File::compressed(JAVASCRIPT, viewer_bytes!("swagger-ui-bundle.js"))),
    ),
    (viewer!("swagger-ui.css"), LazyLock::new(|| File::compressed(CSS, viewer_bytes!("swagger-ui.css")))),
    (
        viewer!("LICENSE.txt"),
        LazyLock::new(|| File::text(TEXT, include_str!("../assets/swagger-ui-5.35.0/LICENSE.txt"))),
    ),
    ("/api/v1/openapi.json", LazyLock::new(|| File::text(JSON, DOCUMENT))),
];

/// The pages with a slash at the end, and where each is without it, seen from there: their links hold there alone.
const WITH_SLASH: [(&str, &str); 2] = [("/docs/api/", "../api"), ("/docs/api/guide/", "../guide")];

fn document() -> serde_json::Value {
    serde_json::from_str(DOCUMENT).expect("the document is JSON, as its test holds")
}

/// Returns the paths of the files that [`router`] serves to GET.
pub(crate) fn paths() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(path, _)| *path)
}

/// Returns the router of the documentation.
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
