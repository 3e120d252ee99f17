//! The plain listener that sends every request on to the public URL.
//!
//! Not here: the listener itself, and its limits.

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{CONNECTION, LOCATION};
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};

/// Returns a router that responds to every request with 308 and the same path and query below `public_url`, whose clients repeat method and
/// body there. The name that the client used (`Host`) is not looked at.
pub(crate) fn router(public_url: &str) -> Router {
    Router::new().fallback(redirect).with_state(public_url.to_owned())
}

async fn redirect(State(public_url): State<String>, request: Request) -> Response {
    let mut response = StatusCode::PERMANENT_REDIRECT.into_response();
    if let Ok(location) = HeaderValue::try_from(location(&public_url, request.uri())) {
        response.headers_mut().insert(LOCATION, location);
    } else {
        *response.status_mut() = StatusCode::BAD_REQUEST;
    }
    // The next request goes to the other port, and a body that was sent with this one is not read.
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

fn location(public_url: &str, uri: &Uri) -> String {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    // `OPTIONS *` has no path.
    if path.starts_with('/') { format!("{public_url}{path}") } else { format!("{public_url}/") }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    async fn every_request_goes_to_its_path_below_the_public_url() {
        for (sent, expected) in [
            ("/", "https://git.example.com/"),
            ("/api/v1/user?x=%20y", "https://git.example.com/api/v1/user?x=%20y"),
            ("//evil.example.org/a", "https://git.example.com//evil.example.org/a"),
            ("http://evil.example.org/a?b", "https://git.example.com/a?b"),
            ("*", "https://git.example.com/"),
        ] {
            for method in ["GET", "POST", "PROPFIND"] {
                let request = Request::builder().method(method).uri(sent).header("host", "evil.example.org");
                let response = router("https://git.example.com").oneshot(request.body(Body::empty()).unwrap()).await;
                let response = response.unwrap();
                assert_eq!(response.status(), StatusCode::PERMANENT_REDIRECT, "{sent}");
                assert_eq!(response.headers()["location"], expected);
                assert_eq!(response.headers()["connection"], "close");
            }
        }
    }
}
