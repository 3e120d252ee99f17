//! The door with nobody behind it: what is refused before a service is asked, and what a client hears when none answers.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use ferrite_kit::Clock;
use ferrite_kit::grpc::{ServiceCredential, ServiceKey, channel};
use ferrite_kit::net::Address;
use ferrite_proto::repo::access_service_client::AccessServiceClient;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use tower::ServiceExt;

use super::http::Door;
use super::router;
use crate::upstream::git_client::Bulk;

/// `ada:secret`
const ADA: (&str, &str) = ("authorization", "Basic YWRhOnNlY3JldA==");
const FETCH: (&str, &str) = ("content-type", "application/x-git-upload-pack-request");
const PUSH: (&str, &str) = ("content-type", "application/x-git-receive-pack-request");

fn door() -> Router {
    let nowhere = Address::Unix(PathBuf::from("/nonexistent/ferrite.sock"));
    let key = ServiceKey::new(vec![7; 32]).unwrap();
    let credential = Arc::new(ServiceCredential::new(key, "gateway", Clock::system()));
    let access = AccessServiceClient::new(channel(&nowhere, Some(Arc::clone(&credential))));
    let (bulk, recheck, capabilities) = (Bulk::new(nowhere, credential), Duration::from_secs(30), Default::default());
    router().with_state(Door { access, bulk, recheck, capabilities })
}

async fn ask(method: &str, path: &str, headers: &[(&str, &str)]) -> (StatusCode, HeaderMap, String) {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = door().oneshot(request.body(Body::from("0000")).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    (parts.status, parts.headers, text)
}

#[tokio::test]
async fn a_push_without_credentials_is_challenged_before_anybody_is_asked() {
    for (method, path, headers) in [
        ("GET", "/ada/demo.git/info/refs?service=git-receive-pack", &[][..]),
        ("GET", "/ada/demo/info/refs/?service=git-receive-pack", &[]),
        ("POST", "/ada/demo.git/git-receive-pack", &[PUSH]),
        ("POST", "/ada/demo/git-receive-pack?service=git-upload-pack", &[PUSH]),
        ("POST", "/ada/..%2f..%2fetc/git-receive-pack", &[PUSH]),
    ] {
        let (status, answer, text) = ask(method, path, headers).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{path}");
        assert_eq!(answer["www-authenticate"], "Basic realm=\"Ferrite\"");
        assert_eq!(
            (&answer["content-type"], text.as_str()),
            (&"text/plain".parse().unwrap(), "credentials are required")
        );
    }
}

#[tokio::test]
async fn other_schemes_are_challenged_not_overlooked() {
    for value in ["Bearer 0123", "token 0123", "Basic ???", ""] {
        let (status, answer, _) =
            ask("GET", "/ada/demo/info/refs?service=git-upload-pack", &[("authorization", value)]).await;
        assert_eq!((status, answer.contains_key("www-authenticate")), (StatusCode::UNAUTHORIZED, true), "{value}");
    }
}

#[tokio::test]
async fn a_name_that_nobody_can_have_looks_like_a_missing_one() {
    for path in ["/a%20b/demo/info/refs", "/ada/%ff/info/refs", "/ada/..%2fx/info/refs", "/ada/.git/info/refs"] {
        let path = format!("{path}?service=git-upload-pack");
        assert_eq!(ask("GET", &path, &[]).await.0, StatusCode::UNAUTHORIZED, "{path}");
        assert_eq!(ask("GET", &path, &[ADA]).await.0, StatusCode::NOT_FOUND, "{path}");
    }
}

#[tokio::test]
async fn malformed_requests_are_told_what_is_wrong() {
    let refs = "/ada/demo/info/refs";
    let fetch = "/ada/demo/git-upload-pack";
    let junk = ("git-protocol", "version=2;rm");
    for (method, path, headers, expected) in [
        ("GET", refs.to_owned(), &[][..], 404),
        ("GET", format!("{refs}?service=git-upload-archive"), &[], 403),
        ("GET", format!("{refs}?service=git-upload-pack"), &[junk], 400),
        ("POST", fetch.to_owned(), &[], 415),
        ("POST", fetch.to_owned(), &[PUSH], 415),
        ("POST", fetch.to_owned(), &[FETCH, ("content-encoding", "br")], 415),
        ("POST", fetch.to_owned(), &[FETCH, junk], 400),
        ("POST", "/ada/demo/git-receive-pack".to_owned(), &[ADA, FETCH], 415),
        ("GET", fetch.to_owned(), &[], 405),
        ("POST", format!("{refs}?service=git-upload-pack"), &[], 405),
        ("GET", "/ada/demo.git/HEAD".to_owned(), &[], 404),
        ("GET", "/ada/demo.git/objects/info/packs".to_owned(), &[], 404),
        ("GET", "/ada/demo.git/config".to_owned(), &[], 404),
    ] {
        let (status, _, text) = ask(method, &path, headers).await;
        assert_eq!(status.as_u16(), expected, "{method} {path} {headers:?}: {text}");
        assert!(text.lines().count() <= 1, "{text}");
    }
}

#[tokio::test]
async fn a_silent_repo_svc_is_unavailable_and_may_be_asked_again() {
    for (method, path, headers) in [
        ("GET", "/ada/demo.git/info/refs?service=git-upload-pack", &[][..]),
        ("GET", "/ada/demo/info/refs?service=git-receive-pack", &[ADA]),
        ("POST", "/ada/demo/git-upload-pack/", &[FETCH]),
        ("POST", "/ada/demo.git/git-receive-pack", &[ADA, PUSH]),
    ] {
        let (status, answer, text) = ask(method, path, headers).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{path}");
        assert_eq!(
            (&answer["retry-after"], &answer["content-type"]),
            (&"1".parse().unwrap(), &"text/plain".parse().unwrap())
        );
        assert!(!text.contains("tcp") && !text.contains("/nonexistent"), "{text}");
    }
}
