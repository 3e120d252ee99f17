use axum::body::{Body, to_bytes};
use http::{HeaderMap, Request};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::script::Script;
use super::{BAD, BROKEN, GOOD, TestGateway};
use crate::router;

const MIB: usize = 1024 * 1024;

async fn render(gateway: &TestGateway, body: &Value) -> (u16, HeaderMap, String) {
    gateway.send("POST", "/markdown", None, &body.to_string()).await
}

#[tokio::test]
async fn a_text_is_rendered_by_its_mode_with_names_in_either_case() {
    let (gateway, _script) = Script::gateway().await;
    let link = "<p><a href=\"http://git.example.com/bob/demo/issues/1\" rel=\"nofollow noopener\">#1</a></p>\n";
    let page = "<p><a href=\"http://git.example.com/bob/demo/wiki/Page\" rel=\"nofollow noopener\">Page</a></p>\n";
    for (body, expected) in [
        (json!({"text": "#1", "mode": "gfm", "context": "bob/demo"}), link),
        (json!({"Text": "#1", "Mode": "gfm", "Context": "http://git.example.com/bob/demo"}), link),
        (json!({"text": "#1", "mode": "markdown", "context": "bob/demo"}), "<p>#1</p>\n"),
        (json!({"text": "[[Page]]", "mode": "gfm", "context": "bob/demo"}), "<p>[[Page]]</p>\n"),
        (json!({"Text": "[[Page]]", "Mode": "gfm", "Context": "bob/demo", "Wiki": true}), page),
        (json!({"text": "[[Page]]", "context": "bob/demo", "wiki": true}), "<p>[[Page]]</p>\n"),
        (json!({"text": "**a** <script>x</script>"}), "<p><strong>a</strong> &lt;script&gt;x&lt;/script&gt;</p>\n"),
        (json!({"text": "", "mode": "gfm"}), ""),
        (json!({}), ""),
    ] {
        let (status, headers, html) = render(&gateway, &body).await;
        assert_eq!((status, html.as_str()), (200, expected), "{body}");
        assert_eq!(headers["content-type"], "text/html; charset=utf-8");
        assert_eq!(headers["content-security-policy"], "default-src 'none'; sandbox");
    }
}

#[tokio::test]
async fn mistakes_name_their_field_and_come_after_the_credentials() {
    let (gateway, script) = Script::gateway().await;
    let (status, _, body) = render(&gateway, &json!({"text": "x".repeat(MIB + 1)})).await;
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (status, &body["errors"][0]["field"], &body["errors"][0]["code"]),
        (422, &json!("text"), &json!("too_long"))
    );
    assert_eq!(render(&gateway, &json!({"text": "x".repeat(MIB)})).await.0, 200);
    let (status, _, body) = render(&gateway, &json!({"Text": 1, "mode": []})).await;
    assert!(status == 422 && body.contains("\"Text\"") && body.contains("\"mode\""), "{body}");
    assert_eq!(gateway.send("POST", "/markdown", None, BROKEN).await.0, 400);
    for path in ["/markdown", "/markdown/raw"] {
        assert_eq!(gateway.status("POST", path, GOOD, "{}").await, 200, "{path}");
        assert_eq!(gateway.status("POST", path, BAD, BROKEN).await, 401, "{path}");
        assert_eq!(gateway.status("POST", path, "nonsense", BROKEN).await, 401, "{path}");
    }
    script.fail("AccessService/CheckAccess", ferrite_rpc::auth::AuthError::CredentialsRequired);
    assert_eq!(gateway.send("POST", "/markdown", None, BROKEN).await.0, 401, "the table decides");
}

#[tokio::test]
async fn a_raw_body_is_the_text_whatever_its_type() {
    let (gateway, _script) = Script::gateway().await;
    for content_type in [None, Some("text/plain"), Some("text/x-markdown; charset=utf-8"), Some("application/json")] {
        let mut request = Request::post("/api/v1/markdown/raw");
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        let request = request.body(Body::from(&b"*a* #1 <img src=x onerror=y> \xff"[..])).unwrap();
        let response = router(&gateway.state).oneshot(request).await.unwrap();
        assert_eq!(response.status(), 200);
        let html = to_bytes(response.into_body(), MIB).await.unwrap();
        assert_eq!(
            String::from_utf8_lossy(&html),
            "<p><em>a</em> #1 <img src=\"x\"> \u{fffd}</p>\n",
            "{content_type:?}"
        );
    }
    assert_eq!(gateway.send("POST", "/markdown/raw", None, "").await.2, "");
    assert_eq!(gateway.send("POST", "/markdown/raw", None, &"x".repeat(MIB + 1)).await.0, 413);
}
