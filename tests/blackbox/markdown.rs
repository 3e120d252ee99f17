//! Markdown rendering over HTTP, open to everybody.

use reqwest::Method;
use serde_json::json;

use crate::harness::{Cluster, Response};

on_profiles! {
    embedded {
        markdown_is_rendered_for_everybody_and_harmless
    }
}

async fn markdown_is_rendered_for_everybody_and_harmless(cluster: &Cluster) {
    let anonymous = cluster.anonymous();
    let context = format!("{}/bob/demo", cluster.url);
    let body = json!({"text": "Hello bob/demo#1 **cool**, #1 @bob", "context": context, "mode": "gfm"});
    let rendered = anonymous.post("/markdown", &body).await.expect(200);
    let link = |to: &str, text: &str| format!("<a href=\"{}/{to}\" rel=\"nofollow noopener\">{text}</a>", cluster.url);
    let expected = format!(
        "<p>Hello {} <strong>cool</strong>, {} {}</p>\n",
        link("bob/demo/issues/1", "bob/demo#1"),
        link("bob/demo/issues/1", "#1"),
        link("bob", "@bob")
    );
    assert_eq!((rendered.text(), rendered.header("content-type")), (expected, "text/html; charset=utf-8".to_owned()));
    let raw =
        anonymous.raw(Method::POST, "/api/v1/markdown/raw").body("# a <script>alert(1)</script>\n[b](javascript:c)");
    let rendered = Response::of(raw).await.expect(200).text();
    let expected = "<h1>a &lt;script&gt;alert(1)&lt;/script&gt;</h1>\n<p><a rel=\"nofollow noopener\">b</a></p>\n";
    assert_eq!(rendered, expected);
    anonymous.with_token(Some(&"0".repeat(40))).post("/markdown", &body).await.refused(401);
    anonymous.post("/markdown", &json!({"text": "x".repeat(1024 * 1024 + 1)})).await.refused_field("text");
    // The most expensive texts are rendered a few at a time, and no other request waits for them.
    let heavy = json!({"text": "- a *b* `c` <b>d</b> #1 @e\n".repeat(20_000), "mode": "gfm", "context": "bob/demo"});
    let (first, second, third, status) = tokio::join!(
        anonymous.post("/markdown", &heavy),
        anonymous.post("/markdown", &heavy),
        anonymous.post("/markdown", &heavy),
        anonymous.get("/users/search?q=nobody"),
    );
    status.expect(200);
    for response in [first, second, third] {
        assert!([200, 503].contains(&response.status.as_u16()), "{}", response.status);
    }
}
