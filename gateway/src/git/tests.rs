//! Git over HTTP with unreachable services: which requests are refused before a service is called,
//! and the response if no service answers.

use std::path::PathBuf;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use ferrite_core::net::Address;
use ferrite_proto::repo::access_service_client::AccessServiceClient;
use ferrite_rpc::grpc::channel;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use tower::ServiceExt;

use super::{GitHttpState, router};
use crate::auth::CROSS_SITE;
use crate::upstream::git_client::GitHttpClient;
use crate::upstream::reauthorize::Reauthorizer;

/// `ada:secret`
const ADA: (&str, &str) = ("authorization", "Basic YWRhOnNlY3JldA==");
const FETCH: (&str, &str) = ("content-type", "application/x-git-upload-pack-request");
const PUSH: (&str, &str) = ("content-type", "application/x-git-receive-pack-request");

fn unreachable_services() -> Router {
    let nowhere = Address::Unix(PathBuf::from("/nonexistent/ferrite.sock"));
    let credentials = crate::tests::git_credentials();
    let access = AccessServiceClient::new(channel(&nowhere, Some(credentials.clone())));
    let life = ferrite_core::Lifecycle::new(Duration::from_secs(1));
    let reauthorizer = Reauthorizer::new(access.clone(), Duration::from_secs(30), life);
    let git_client = GitHttpClient::new(nowhere, credentials);
    router().with_state(GitHttpState { access, git_client, reauthorizer, requires_account: false })
}

async fn send(method: &str, path: &str, headers: &[(&str, &str)]) -> (StatusCode, HeaderMap, String) {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = unreachable_services().oneshot(request.body(Body::from("0000")).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    (parts.status, parts.headers, text)
}

#[tokio::test]
async fn a_push_without_credentials_is_challenged_before_a_service_is_called() {
    for (method, path, headers) in [
        ("GET", "/ada/demo.git/info/refs?service=git-receive-pack", &[][..]),
        ("GET", "/ada/demo/info/refs/?service=git-receive-pack", &[]),
        ("POST", "/ada/demo.git/git-receive-pack", &[PUSH]),
        ("POST", "/ada/demo/git-receive-pack?service=git-upload-pack", &[PUSH]),
        ("POST", "/ada/..%2f..%2fetc/git-receive-pack", &[PUSH]),
    ] {
        let (status, response, text) = send(method, path, headers).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{path}");
        assert_eq!(response["www-authenticate"], "Basic realm=\"Ferrite\"");
        assert_eq!(
            (&response["content-type"], text.as_str()),
            (&"text/plain".parse().unwrap(), "credentials are required")
        );
    }
}

#[tokio::test]
async fn other_schemes_are_challenged_not_overlooked() {
    for value in ["Bearer 0123", "token 0123", "Basic ???", ""] {
        let (status, response, _) =
            send("GET", "/ada/demo/info/refs?service=git-upload-pack", &[("authorization", value)]).await;
        assert_eq!((status, response.contains_key("www-authenticate")), (StatusCode::UNAUTHORIZED, true), "{value}");
    }
}

#[tokio::test]
async fn a_name_that_cannot_exist_looks_like_a_missing_one() {
    for path in ["/a%20b/demo/info/refs", "/ada/%ff/info/refs", "/ada/..%2fx/info/refs", "/ada/.git/info/refs"] {
        let path = format!("{path}?service=git-upload-pack");
        assert_eq!(send("GET", &path, &[]).await.0, StatusCode::UNAUTHORIZED, "{path}");
        assert_eq!(send("GET", &path, &[ADA]).await.0, StatusCode::NOT_FOUND, "{path}");
    }
}

#[tokio::test]
async fn malformed_requests_get_an_error_of_one_line() {
    let refs = "/ada/demo/info/refs";
    let fetch = "/ada/demo/git-upload-pack";
    let malformed = ("git-protocol", "version=2;rm");
    for (method, path, headers, expected) in [
        ("GET", refs.to_owned(), &[][..], 404),
        ("GET", format!("{refs}?service=git-upload-archive"), &[], 403),
        ("GET", format!("{refs}?service=git-upload-pack"), &[malformed], 400),
        ("POST", fetch.to_owned(), &[], 415),
        ("POST", fetch.to_owned(), &[PUSH], 415),
        ("POST", fetch.to_owned(), &[FETCH, ("content-encoding", "br")], 415),
        ("POST", fetch.to_owned(), &[FETCH, malformed], 400),
        ("POST", "/ada/demo/git-receive-pack".to_owned(), &[ADA, FETCH], 415),
        ("GET", fetch.to_owned(), &[], 405),
        ("POST", format!("{refs}?service=git-upload-pack"), &[], 405),
        ("GET", "/ada/demo.git/HEAD".to_owned(), &[], 404),
        ("GET", "/ada/demo.git/objects/info/packs".to_owned(), &[], 404),
        ("GET", "/ada/demo.git/config".to_owned(), &[], 404),
    ] {
        let (status, _, text) = send(method, &path, headers).await;
        assert_eq!(status.as_u16(), expected, "{method} {path} {headers:?}: {text}");
        assert!(text.lines().count() <= 1, "{text}");
    }
}

#[tokio::test]
async fn a_page_of_another_site_cannot_push() {
    let push = "/ada/demo.git/git-receive-pack";
    let site = |site| ("sec-fetch-site", site);
    let (status, _, text) = send("POST", push, &[ADA, PUSH, site("cross-site")]).await;
    assert_eq!((status, text.as_str()), (StatusCode::FORBIDDEN, CROSS_SITE));
    assert_eq!(send("POST", push, &[PUSH, site("cross-site")]).await.0, StatusCode::UNAUTHORIZED);
    for (method, path, headers) in [
        ("POST", push, [ADA, PUSH, site("same-origin")]),
        ("POST", "/ada/demo/git-upload-pack", [ADA, FETCH, site("cross-site")]),
        ("GET", "/ada/demo/info/refs?service=git-receive-pack", [ADA, PUSH, site("cross-site")]),
    ] {
        assert_eq!(send(method, path, &headers).await.0, StatusCode::SERVICE_UNAVAILABLE, "{method} {path}");
    }
}

#[tokio::test]
async fn an_unreachable_repo_svc_is_503_with_retry_after() {
    for (method, path, headers) in [
        ("GET", "/ada/demo.git/info/refs?service=git-upload-pack", &[][..]),
        ("GET", "/ada/demo/info/refs?service=git-receive-pack", &[ADA]),
        ("POST", "/ada/demo/git-upload-pack/", &[FETCH]),
        ("POST", "/ada/demo.git/git-receive-pack", &[ADA, PUSH]),
    ] {
        let (status, response, text) = send(method, path, headers).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{path}");
        assert_eq!(
            (&response["retry-after"], &response["content-type"]),
            (&"1".parse().unwrap(), &"text/plain".parse().unwrap())
        );
        assert!(!text.contains("tcp") && !text.contains("/nonexistent"), "{text}");
    }
}
