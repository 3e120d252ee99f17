use axum::body::{Body, to_bytes};
use ferrite_listener::Peer;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use tower::ServiceExt;

use super::{GOOD, TestGateway};
use crate::router;

/// Stands in for git-svc, with archives of a few revisions.
pub(super) async fn archive(method: Method, headers: HeaderMap, uri: Uri) -> (StatusCode, HeaderMap, Body) {
    assert_eq!(headers["ferrite-grant"], "grant");
    assert!(headers.contains_key("ferrite-service") && !headers.contains_key("authorization"));
    let mut response = HeaderMap::new();
    response.insert("etag", HeaderValue::from_static("\"x\""));
    let (status, body) = match uri.query().unwrap_or_default() {
        "revision=feature%2Fone&format=zip&prefix=read" => {
            let word = |name: &str| headers.get(name).map_or("-", |value| value.to_str().unwrap()).to_owned();
            let seen = ["range", "if-range", "if-none-match", "ferrite-client", "x-other"].map(word).join(" ");
            (StatusCode::OK, Body::from(seen))
        }
        "revision=heads&format=zip&prefix=read" => {
            assert_eq!(method, Method::HEAD);
            (StatusCode::OK, Body::from_stream(futures_util::stream::empty::<Result<Vec<u8>, std::io::Error>>()))
        }
        "revision=part&format=tar.gz&prefix=read" => {
            response.insert("content-range", HeaderValue::from_static("bytes 2-3/9"));
            (StatusCode::PARTIAL_CONTENT, Body::from("cd"))
        }
        "revision=short&format=zip&prefix=read" => {
            response.insert("content-range", HeaderValue::from_static("bytes */9"));
            (StatusCode::RANGE_NOT_SATISFIABLE, Body::empty())
        }
        "revision=cccccccccccccccccccccccccccccccccccccccc&format=zip&prefix=read" => {
            response.insert("ferrite-commit", HeaderValue::from_static("cccccccccccccccccccccccccccccccccccccccc"));
            (StatusCode::NOT_MODIFIED, Body::empty())
        }
        "revision=known&format=zip&prefix=read" => (StatusCode::NOT_MODIFIED, Body::empty()),
        "revision=huge&format=zip&prefix=read" => (StatusCode::PAYLOAD_TOO_LARGE, Body::from("/srv/secret")),
        "revision=busy&format=zip&prefix=read" => (StatusCode::SERVICE_UNAVAILABLE, Body::from("wait")),
        "revision=odd&format=zip&prefix=read" => (StatusCode::BAD_REQUEST, Body::from("wrong")),
        "revision=broken&format=zip&prefix=read" => (StatusCode::INTERNAL_SERVER_ERROR, Body::from("/srv/secret")),
        _ => (StatusCode::NOT_FOUND, Body::from("revision not found")),
    };
    (status, response, body)
}

#[tokio::test]
async fn an_archive_is_offered_under_a_name_without_slashes_and_can_be_resumed() {
    let gateway = TestGateway::new().await;
    let request = Request::get("/api/v1/repos/bob/read/archive/feature/one.zip")
        .header("authorization", GOOD)
        .header("range", "bytes=2-")
        .header("if-range", "\"x\"")
        .header("if-none-match", "\"y\"")
        .header("ferrite-client", "forged")
        .header("x-other", "kept back")
        .extension(Peer("192.0.2.7:999".parse().unwrap()));
    let response = router(&gateway.state).oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 200);
    for (name, value) in [
        ("content-type", "application/octet-stream"),
        ("content-disposition", "attachment; filename=\"read-feature-one.zip\""),
        ("accept-ranges", "bytes"),
        ("content-transfer-encoding", "binary"),
        ("cache-control", "private, no-cache"),
        ("vary", "authorization"),
        ("x-content-type-options", "nosniff"),
        ("etag", "\"x\""),
    ] {
        assert_eq!(response.headers()[name], value, "{name}");
    }
    let body = to_bytes(response.into_body(), 1024).await.unwrap();
    assert_eq!(body, "bytes=2- \"x\" \"y\" 192.0.2.7 -");
    let (status, headers, body) = gateway.send("GET", "/repos/bob/read/archive/part.tar.gz", Some(GOOD), "").await;
    assert_eq!((status, body.as_str(), &headers["content-range"]), (206, "cd", &"bytes 2-3/9".parse().unwrap()));
    assert_eq!(gateway.send("HEAD", "/repos/bob/read/archive/feature%2Fone.zip", Some(GOOD), "").await.2, "");
    let (status, headers, _) = gateway.send("HEAD", "/repos/bob/read/archive/heads.zip", Some(GOOD), "").await;
    assert!(status == 200 && headers["etag"] == "\"x\"" && !headers.contains_key("content-length"), "{headers:?}");
}

#[tokio::test]
async fn an_archive_may_be_kept_if_its_name_is_the_id_of_the_commit() {
    let gateway = TestGateway::new().await;
    let id = "c".repeat(40);
    for (name, cache) in [(id.as_str(), "private, max-age=86400, immutable"), ("known", "private, no-cache")] {
        let path = format!("/repos/bob/read/archive/{name}.zip");
        let (status, headers, _) = gateway.send("GET", &path, Some(GOOD), "").await;
        assert_eq!((status, headers["cache-control"].to_str().unwrap()), (304, cache), "{name}");
    }
}

#[tokio::test]
async fn an_error_of_git_svc_is_not_passed_on() {
    let gateway = TestGateway::new().await;
    for (archive, expected) in [
        ("none.zip", 404),
        ("feature/one.tar", 404),
        ("feature/one", 404),
        (".zip", 404),
        ("odd.zip", 404),
        ("short.zip", 416),
        ("huge.zip", 422),
        ("busy.zip", 503),
        ("broken.zip", 500),
    ] {
        let (status, headers, body) =
            gateway.send("GET", &format!("/repos/bob/read/archive/{archive}"), Some(GOOD), "").await;
        assert_eq!(status, expected, "{archive}");
        assert!(body.starts_with("{\"message\":") && !body.contains("secret"), "{body}");
        assert_eq!(headers.get("content-range").is_some(), status == 416, "{archive}");
        assert_eq!(body.contains("\"field\":\"archive\""), status == 422, "{body}");
    }
    let (status, headers, body) = gateway.send("GET", "/repos/bob/read/archive/known.zip", Some(GOOD), "").await;
    assert_eq!((status, body.as_str(), &headers["etag"]), (304, "", &"\"x\"".parse().unwrap()));
}
