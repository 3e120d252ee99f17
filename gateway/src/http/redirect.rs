//! Redirects: from a former name of a repository to the same path below its current name, from a
//! former name of a branch to the current one, and from the plain HTTP listener to the public URL.
//!
//! repo-svc decides whether the caller may learn the current name; otherwise it gets the 404 of a
//! missing repository.

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{CONNECTION, LOCATION};
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};

use super::error::{ApiError, PresentName};
use ferrite_api_types::links::{Links, encode_path};

/// Turns the error for a former name into a redirect: 301 for reads, and 307 for other methods, so
/// that clients repeat method and body. Routes whose `template` lacks the renamed thing keep the
/// error. Other responses stay as they are.
pub(crate) fn to_present_name(
    links: &Links,
    template: Option<&MatchedPath>,
    method: &Method,
    uri: &Uri,
    response: Response,
) -> Response {
    let moved = response.extensions().get::<ApiError>().and_then(ApiError::moved_to);
    let Some((name, template)) = moved.zip(template) else { return response };
    let path = present_path(template.as_str(), uri.path(), name);
    match path.and_then(|path| location(links, &path, uri)) {
        Some(location) => redirect(method, name, location),
        None => response,
    }
}

/// Returns `path` with the current name in place of the one in `template`; `None` if the template
/// has none.
fn present_path(template: &str, path: &str, name: &PresentName) -> Option<String> {
    match name {
        PresentName::Repository { owner, name } => path_of_repository(template, path, owner, name),
        PresentName::Branch(branch) => {
            let place = template.split('/').position(|part| part == "{*branch}")?;
            let parts: Vec<_> = path.split('/').take(place).collect();
            Some(format!("{}/{}", parts.join("/"), encode_path(branch.as_bytes())))
        }
    }
}

fn path_of_repository(template: &str, path: &str, owner: &str, name: &str) -> Option<String> {
    let mut parts: Vec<_> = path.split('/').collect();
    let mut replaced = 0;
    for (place, part) in template.split('/').enumerate() {
        let present = match part {
            "{owner}" => owner,
            "{repo}" => name,
            _ => continue,
        };
        *parts.get_mut(place)? = present;
        replaced += 1;
    }
    (replaced == 2).then(|| parts.join("/"))
}

fn location(links: &Links, path: &str, uri: &Uri) -> Option<HeaderValue> {
    let (question, query) = uri.query().map_or(("", ""), |query| ("?", query));
    HeaderValue::try_from(format!("{}{path}{question}{query}", links.root())).ok()
}

fn redirect(method: &Method, name: &PresentName, location: HeaderValue) -> Response {
    let status = if *method == Method::GET { StatusCode::MOVED_PERMANENTLY } else { StatusCode::TEMPORARY_REDIRECT };
    let error = match name {
        PresentName::Repository { .. } => ApiError::new(status, "repository has moved"),
        PresentName::Branch(_) => ApiError::new(status, "branch was renamed").because("BRANCH_RENAMED"),
    };
    let mut response = error.into_response();
    response.headers_mut().insert(LOCATION, location);
    response
}

/// Returns a router that redirects every request to the same path and query below `public_url`,
/// with 308, so that clients repeat method and body. Ignores the `Host` header.
pub(crate) fn https_router(public_url: &str) -> Router {
    Router::new().fallback(redirect_to_https).with_state(public_url.to_owned())
}

async fn redirect_to_https(State(public_url): State<String>, request: Request) -> Response {
    let mut response = StatusCode::PERMANENT_REDIRECT.into_response();
    if let Ok(location) = HeaderValue::try_from(https_location(&public_url, request.uri())) {
        response.headers_mut().insert(LOCATION, location);
    } else {
        *response.status_mut() = StatusCode::BAD_REQUEST;
    }
    // The next request goes to the other port, and the body of this one is not read.
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

fn https_location(public_url: &str, uri: &Uri) -> String {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    // `OPTIONS *` has no path.
    if path.starts_with('/') { format!("{public_url}{path}") } else { format!("{public_url}/") }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use tower::ServiceExt;

    use super::*;

    #[test]
    fn only_owner_and_name_of_a_path_are_replaced() {
        let name = PresentName::Repository { owner: "acme".to_owned(), name: "new".to_owned() };
        let path = |template: &str, path: &str| present_path(template, path, &name);
        for (template, old, new) in [
            ("/api/v1/repos/{owner}/{repo}", "/api/v1/repos/ada/old", "/api/v1/repos/acme/new"),
            (
                "/api/v1/repos/{owner}/{repo}/raw/{*path}",
                "/api/v1/repos/ada/old/raw/main/ada/old%2Fx",
                "/api/v1/repos/acme/new/raw/main/ada/old%2Fx",
            ),
            ("/api/v1/user/starred/{owner}/{repo}", "/api/v1/user/starred/ada/old", "/api/v1/user/starred/acme/new"),
        ] {
            assert_eq!(path(template, old).as_deref(), Some(new));
        }
        assert_eq!(path("/api/v1/users/{username}/tokens", "/api/v1/users/ada/tokens"), None);
    }

    #[test]
    fn the_rest_of_a_path_is_replaced_by_the_name_of_a_branch() {
        let name = PresentName::Branch("new/one %".to_owned());
        let template = "/api/v1/repos/{owner}/{repo}/branches/{*branch}";
        for old in ["a", "a/b", "a%2Fb"] {
            let path = present_path(template, &format!("/api/v1/repos/ada/demo/branches/{old}"), &name);
            assert_eq!(path.as_deref(), Some("/api/v1/repos/ada/demo/branches/new/one%20%25"), "{old}");
        }
        assert_eq!(present_path("/api/v1/repos/{owner}/{repo}", "/api/v1/repos/ada/demo", &name), None);
    }

    #[test]
    fn reads_are_moved_for_good_and_writes_are_repeated() {
        let to = || HeaderValue::from_static("http://h/x");
        let name = PresentName::Branch("new".to_owned());
        let status = |method| redirect(&method, &name, to()).status().as_u16();
        assert_eq!(
            [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE].map(status),
            [301, 307, 307, 307, 307]
        );
    }

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
                let response =
                    https_router("https://git.example.com").oneshot(request.body(Body::empty()).unwrap()).await;
                let response = response.unwrap();
                assert_eq!(response.status(), StatusCode::PERMANENT_REDIRECT, "{sent}");
                assert_eq!(response.headers()["location"], expected);
                assert_eq!(response.headers()["connection"], "close");
            }
        }
    }
}
