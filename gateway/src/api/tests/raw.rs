//! Files as they are: their types, their ranges and the errors of git-svc.

use std::convert::Infallible;

use axum::body::Body;
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri};
use tower::ServiceExt;

use super::{GOOD, TestGateway};
use crate::router;

/// Stands in for git-svc on a few paths, and checks that each request has the grant.
pub(super) async fn raw(headers: HeaderMap, uri: Uri) -> (StatusCode, HeaderMap, Body) {
    assert_eq!(headers["ferrite-grant"], "grant");
    assert!(headers.contains_key("ferrite-service") && !headers.contains_key("authorization"));
    let mut response = HeaderMap::new();
    response.insert("etag", HeaderValue::from_static("\"x\""));
    let path = uri.query().unwrap_or_default();
    let (status, body) = match path.strip_prefix("path=").unwrap_or_default() {
        "main%2Fa%20b.txt" if headers.contains_key("if-none-match") => (StatusCode::NOT_MODIFIED, Body::empty()),
        "main%2Fa%20b.txt" => (StatusCode::OK, Body::from("<b>text</b>")),
        "a%20b.txt&revision=one%2Ftwo" | "a%20b.txt&revision=" => (StatusCode::OK, Body::from("by revision")),
        "main%2F%FF.bin" => {
            response.insert("ferrite-file-name", HeaderValue::from_static("%FF.bin"));
            let chunks = (0..64).map(|_| Ok::<_, Infallible>(vec![0_u8; 8 * 1024]));
            (StatusCode::OK, Body::from_stream(futures_util::stream::iter(chunks)))
        }
        "main%2Fpart" if headers.get("range").is_some_and(|range| range == "bytes=2-3") => {
            response.insert("content-range", HeaderValue::from_static("bytes 2-3/9"));
            response.insert("ferrite-file-text", HeaderValue::from_static("true"));
            (StatusCode::PARTIAL_CONTENT, Body::from("\0\0"))
        }
        "main%2Fpart" => (StatusCode::RANGE_NOT_SATISFIABLE, Body::empty()),
        "main%2Fbusy" => (StatusCode::SERVICE_UNAVAILABLE, Body::from("wait")),
        "main%2Fbroken" => (StatusCode::INTERNAL_SERVER_ERROR, Body::from("/srv/secret/path")),
        _ => (StatusCode::NOT_FOUND, Body::from("path not found")),
    };
    (status, response, body)
}

#[tokio::test]
async fn a_file_is_plain_text_and_a_binary_one_is_a_download() {
    let gateway = TestGateway::new().await;
    let (status, headers, body) = gateway.send("GET", "/repos/bob/read/raw/main/a%20b.txt", Some(GOOD), "").await;
    assert_eq!((status, body.as_str()), (200, "<b>text</b>"));
    assert_eq!(
        (&headers["content-type"], &headers["etag"]),
        (&"text/plain; charset=utf-8".parse().unwrap(), &"\"x\"".parse().unwrap())
    );
    assert_eq!(headers["x-content-type-options"], "nosniff");
    assert!(!headers.contains_key("content-disposition"));
    let (status, headers, body) = gateway.send("GET", "/repos/bob/read/raw/main%2F%ff.bin", Some(GOOD), "").await;
    assert_eq!((status, body.len()), (200, 512 * 1024));
    assert_eq!(headers["content-disposition"], "attachment; filename=\"_.bin\"; filename*=UTF-8''%FF.bin");
    assert_eq!(gateway.send("HEAD", "/repos/bob/read/raw/main/a%20b.txt", Some(GOOD), "").await.2, "");
    for (path, expected) in [
        ("media/main/a%20b.txt", "<b>text</b>"),
        ("raw/a%20b.txt?ref=one/two", "by revision"),
        ("media/a%20b.txt?ref=one%2Ftwo", "by revision"),
        ("raw/a%20b.txt?ref=", "by revision"),
        ("raw/a%20b.txt?ref", "by revision"),
    ] {
        let (status, headers, body) = gateway.send("GET", &format!("/repos/bob/read/{path}"), Some(GOOD), "").await;
        assert_eq!((status, body.as_str()), (200, expected), "{path}");
        assert_eq!(headers["etag"], "\"x\"", "{path}");
    }
}

#[tokio::test]
async fn a_range_of_a_file_has_the_type_of_the_whole() {
    let gateway = TestGateway::new().await;
    let send = async |range| {
        let request = Request::get("/api/v1/repos/bob/read/raw/main/part").header("authorization", GOOD);
        let request = request.header("range", range).body(Body::empty()).unwrap();
        router(&gateway.state).oneshot(request).await.unwrap()
    };
    let part = send("bytes=2-3").await;
    assert_eq!(
        (part.status(), &part.headers()["content-range"]),
        (StatusCode::PARTIAL_CONTENT, &HeaderValue::from_static("bytes 2-3/9"))
    );
    assert_eq!(
        (&part.headers()["content-type"], &part.headers()["accept-ranges"]),
        (&HeaderValue::from_static("text/plain; charset=utf-8"), &HeaderValue::from_static("bytes"))
    );
    assert_eq!(send("bytes=9-").await.status(), StatusCode::RANGE_NOT_SATISFIABLE);
}

#[tokio::test]
async fn an_error_of_git_svc_is_not_passed_on() {
    let gateway = TestGateway::new().await;
    for (path, expected) in [("main/none", 404), ("main/busy", 503), ("main/broken", 500)] {
        let (status, _, body) = gateway.send("GET", &format!("/repos/bob/read/raw/{path}"), Some(GOOD), "").await;
        assert_eq!(status, expected, "{path}");
        assert!(body.starts_with("{\"message\":") && !body.contains("secret"), "{body}");
    }
    let request = Request::get("/api/v1/repos/bob/read/raw/main/a%20b.txt")
        .header("authorization", GOOD)
        .header("if-none-match", "\"x\"");
    let response = router(&gateway.state).oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(
        (response.status(), &response.headers()["etag"]),
        (StatusCode::NOT_MODIFIED, &HeaderValue::from_static("\"x\""))
    );
}
