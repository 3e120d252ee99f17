use std::collections::BTreeSet;

use axum::body::{Body, Bytes, to_bytes};
use axum::http::{Request, Response};
use serde_json::json;
use sha2::{Digest, Sha256};
use tower::ServiceExt;

use super::*;

async fn get_with(path: &str, headers: &[(&str, &str)]) -> (Response<()>, Bytes) {
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = router().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    (Response::from_parts(parts, ()), to_bytes(body, usize::MAX).await.unwrap())
}

async fn page() -> String {
    String::from_utf8(get_with("/docs/api", &[]).await.1.to_vec()).unwrap()
}

fn values<'a>(page: &'a str, attribute: &str) -> Vec<&'a str> {
    let begin = format!(" {attribute}=\"");
    page.split(&begin).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[tokio::test]
async fn the_page_has_an_anchor_for_every_operation() {
    let page = page().await;
    let ids = values(&page, "id");
    let unique: BTreeSet<_> = ids.iter().copied().collect();
    assert_eq!(unique.len(), ids.len(), "an id stands twice");
    let document = document();
    let items = document["paths"].as_object().unwrap().values().flat_map(|item| item.as_object().unwrap().values());
    let operations: Vec<_> = items.filter_map(|operation| operation["operationId"].as_str()).collect();
    assert!(!operations.is_empty());
    for id in operations {
        assert!(unique.contains(id), "{id}");
    }
    for target in values(&page, "href").into_iter().filter_map(|link| link.strip_prefix('#')) {
        assert!(unique.contains(target), "{target}");
    }
}

#[tokio::test]
async fn the_page_tells_what_an_operation_takes_and_returns() {
    let page = page().await;
    let operation = page.split("id=\"CreateLabel\"").nth(1).unwrap().split("</article>").next().unwrap();
    for part in [
        "<code class=\"method\">POST</code> <code>/api/v1/repos/{owner}/{repo}/labels</code>",
        "a token with the scope <code>issue</code>",
        "path, required",
        "<a href=\"#schema-NewLabel\">NewLabel</a>",
        "<a href=\"#schema-Label\">Label</a>",
        "LABEL_ALREADY_EXISTS",
    ] {
        assert!(operation.contains(part), "{part}: {operation}");
    }
}

#[tokio::test]
async fn the_page_loads_files_of_its_own_alone() {
    let page = page().await;
    assert_eq!(page.matches("<script").count(), 1);
    assert!(!page.contains("<style") && !page.contains(" style=") && !page.contains(" onclick="));
    let files =
        [values(&page, "src"), values(&page, "href"), values(&page, "data-script"), values(&page, "data-style")];
    let served: BTreeSet<_> = paths().collect();
    for link in files.concat() {
        let path = match link {
            "data:," => continue,
            link if link.starts_with('#') || link.starts_with("../") => continue,
            link => format!("/docs/{link}"),
        };
        assert!(served.contains(path.as_str()), "{path}");
    }
}

#[tokio::test]
async fn links_of_the_guide_lead_to_its_sections() {
    let (response, body) = get_with("/docs/api/guide", &[]).await;
    assert_eq!(response.headers()["content-type"], HTML);
    let page = String::from_utf8(body.to_vec()).unwrap();
    let anchors: BTreeSet<_> = values(&page, "id").into_iter().collect();
    assert!(anchors.contains("errors") && page.contains("<table>"), "{page}");
    let links = values(&page, "href");
    assert!(links.contains(&"#conditional-requests"), "{links:?}");
    for link in links {
        let is_served = link.strip_prefix('#').map_or(link.contains("://"), |anchor| anchors.contains(anchor));
        assert!(is_served || ["data:,", "api.css", "../api"].contains(&link), "{link}");
    }
    assert!(!page.contains("<script") && !page.contains(" style="));
}

#[tokio::test]
async fn a_page_with_a_slash_at_its_end_is_found_without_it() {
    for (path, expected) in [("/docs/api/", "../api"), ("/docs/api/guide/", "../guide")] {
        let (moved, body) = get_with(path, &[]).await;
        assert_eq!((moved.status().as_u16(), body.len()), (301, 0), "{path}");
        // Relative, like the links of the page: the site may be served below a path.
        assert_eq!(moved.headers()["location"], expected, "{path}");
        assert!(paths().any(|page| page == path.trim_end_matches('/')), "{path}");
    }
    assert_eq!(get_with("/docs/api/api.css/", &[]).await.0.status().as_u16(), 404);
}

#[test]
fn texts_of_the_document_are_no_html() {
    let evil = "<script>\"'&";
    let document = json!({"paths": {evil: {"get": {
        "operationId": evil, "summary": evil, "description": evil, "tags": [evil], "x-rpc": evil,
        "security": [{evil: [evil]}, {"token": [evil]}],
        "parameters": [{"name": evil, "in": evil, "description": evil, "schema": {"type": evil, "pattern": evil}}],
        "requestBody": {"content": {evil: {"schema": {"$ref": format!("#/{evil}")}}}},
        "responses": {evil: {"description": evil, "headers": {evil: {}}, "content": {evil: {}}}},
    }}}, "components": {
        "schemas": {evil: {"description": evil, "properties": {evil: {"enum": [evil], "format": evil}}}},
        "responses": {evil: {"description": evil}},
    }});
    let page = page::render(&document);
    assert!(page.contains("&lt;script&gt;&quot;&#39;&amp;"));
    assert!(!page.contains("<script>") && !page.contains("\"'"), "{page}");
}

#[tokio::test]
async fn every_file_has_its_policy_its_tag_and_its_time() {
    for path in paths() {
        let (plain, body) = get_with(path, &[]).await;
        let (gzip, packed) = get_with(path, &[("accept-encoding", "gzip, br")]).await;
        assert_eq!((plain.status().as_u16(), gzip.status().as_u16()), (200, 200), "{path}");
        assert!(!plain.headers().contains_key("content-encoding"), "{path}");
        assert_eq!(gzip.headers()["content-encoding"], "gzip", "{path}");
        assert!(packed.len() < body.len(), "{path}");
        assert_ne!(plain.headers()["etag"], gzip.headers()["etag"], "{path}");
        for (response, encoding) in [(plain, ""), (gzip, "gzip")] {
            let headers = response.headers();
            let policy = headers["content-security-policy"].to_str().unwrap();
            assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe"), "{policy}");
            assert_eq!(headers["vary"], "accept-encoding");
            let cache = headers["cache-control"].to_str().unwrap();
            let is_versioned = path.contains("/swagger-ui-") && !path.ends_with(".txt");
            assert_eq!(cache.contains("immutable"), is_versioned, "{path}");
            let tag = headers["etag"].to_str().unwrap();
            let repeated = [("accept-encoding", encoding), ("if-none-match", tag)];
            let (unchanged, body) = get_with(path, &repeated).await;
            assert_eq!((unchanged.status().as_u16(), body.len()), (304, 0), "{path}");
        }
    }
}

#[tokio::test]
async fn the_viewer_is_the_one_that_its_page_names() {
    let readme = include_str!("../../assets/README.md");
    for name in ["swagger-ui-bundle.js", "swagger-ui.css"] {
        let path = paths().find(|path| path.ends_with(name)).unwrap();
        let sum = hex::encode(Sha256::digest(get_with(path, &[]).await.1));
        assert!(readme.contains(&format!("| `{name}` | `{sum}` |")), "{name}: {sum}");
        let folder = path.split('/').rev().nth(1).unwrap();
        assert!(readme.contains(&format!("`{folder}/`")), "{folder}");
    }
}
