//! Pages as visitors get them, without services.

use axum::body::{Body, to_bytes};
use axum::http::header::{
    ALLOW, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, Method, Request, StatusCode};
use ferrite_api_types::links::Links;
use futures_util::future::join_all;
use tower::ServiceExt;

use super::options::{PageOptions, SignInScope};
use crate::router;
use crate::tests::unreachable_services;

struct Page {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

/// Visits a page of a site with these options, below `/sub`.
async fn visit(options: PageOptions, path: &str) -> Page {
    send(options, Method::GET, path).await
}

async fn send(options: PageOptions, method: Method, path: &str) -> Page {
    let links = Links::new("http://git.example.com/sub", "git.example.com:22");
    let state = crate::state::AppState { links, pages: options, ..unreachable_services() };
    let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
    let (parts, body) = router(&state).oneshot(request).await.unwrap().into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    Page { status: parts.status, headers: parts.headers, body: String::from_utf8(body.to_vec()).unwrap() }
}

#[tokio::test]
async fn visitors_without_an_account_sign_in_where_the_operator_wants_it() {
    let (none, expensive) = (SignInScope::None, SignInScope::Expensive);
    let (pages, all) = (SignInScope::Pages, SignInScope::All);
    let blame = "/ada/demo/blame/branch/main/x";
    // No service answers, so what is not refused is 503.
    let cases = [
        (none, blame, 503),
        (expensive, blame, 303),
        (expensive, "/ada/demo", 503),
        (pages, "/ada/demo", 303),
        (pages, "/", 303),
        (pages, "/user/login", 200),
        (pages, "/api/v1/repos/ada/demo", 503),
        (all, "/api/v1/repos/ada/demo", 401),
        (all, "/api/v1/version", 200),
        (all, "/avatars/1", 503),
        (all, "/user/login", 200),
        (all, "/robots.txt", 200),
        (pages, "/ada/demo/info/refs?service=git-upload-pack", 503),
        (all, "/ada/demo/info/refs?service=git-upload-pack", 401),
    ];
    let visits = cases.map(|(sign_in, path, _)| visit(PageOptions { sign_in, ..PageOptions::default() }, path));
    for ((scope, path, status), page) in cases.iter().zip(join_all(visits).await) {
        assert_eq!(page.status.as_u16(), *status, "{scope:?} {path}");
        if *status == 303 {
            let location = page.headers[LOCATION].to_str().unwrap();
            assert!(location.starts_with("/sub/user/login?redirect_to=%2F"), "{location}");
        }
    }
}

#[tokio::test]
async fn the_operator_names_the_site_and_adds_links() {
    let options = PageOptions {
        name: "Ada's <git>".to_owned(),
        footer: "Imprint=https://example.com/a?b&c,Help=/docs/api".parse().unwrap(),
        has_external_pictures: true,
        ..PageOptions::default()
    };
    let page = visit(options, "/user/login?redirect_to=%2Fada").await;
    for text in [
        "Ada&#39;s &#60;git&#62;</a>",
        "<a href=\"https://example.com/a?b&#38;c\">Imprint</a>",
        "<a href=\"/sub/docs/api\">Help</a>",
        "<meta name=\"robots\" content=\"noindex\">",
    ] {
        assert!(page.body.contains(text), "{text} is not in {}", page.body);
    }
    assert!(page.headers[CONTENT_SECURITY_POLICY].to_str().unwrap().contains("img-src 'self' data: https:;"));
}

#[tokio::test]
async fn crawlers_are_told_where_to_go() {
    let usual = visit(PageOptions::default(), "/robots.txt").await;
    assert_eq!(usual.headers[CONTENT_TYPE], "text/plain; charset=utf-8");
    assert!(usual.body.contains("\nDisallow: /sub/*/*/blame/\n"), "{}", usual.body);
    let robots = Some("User-agent: *\nDisallow: /\n".to_owned());
    let own = visit(PageOptions { robots: robots.clone(), ..PageOptions::default() }, "/robots.txt").await;
    assert_eq!(Some(own.body), robots);
}

#[tokio::test]
async fn a_wrong_method_is_answered_with_a_page() {
    let page = send(PageOptions::default(), Method::POST, "/search").await;
    assert_eq!((page.status.as_u16(), page.headers[ALLOW].to_str().unwrap()), (405, "GET,HEAD"));
    assert!(page.headers.contains_key(CONTENT_SECURITY_POLICY) && page.body.contains("<h1>"), "{}", page.body);
}

#[tokio::test]
async fn every_response_has_the_headers_that_protect_it() {
    let closed = PageOptions { sign_in: SignInScope::Pages, ..PageOptions::default() };
    for (options, method, path, status) in [
        (PageOptions::default(), Method::GET, "/user/login", 200),
        (PageOptions::default(), Method::GET, "/ada/demo/media/branch/main/x.png", 307),
        (PageOptions::default(), Method::GET, "/user/settings", 303),
        (PageOptions::default(), Method::GET, "/ada/demo/no/page", 404),
        (PageOptions::default(), Method::POST, "/search", 405),
        (PageOptions::default(), Method::GET, "/ada/demo", 503),
        (PageOptions::default(), Method::GET, "/ada/demo.atom", 503),
        (closed, Method::GET, "/", 303),
    ] {
        let page = send(options, method, path).await;
        assert_eq!(page.status.as_u16(), status, "{path}");
        let policy = page.headers[CONTENT_SECURITY_POLICY].to_str().unwrap();
        for part in ["default-src 'none'", "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'"] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert_eq!(page.headers[X_CONTENT_TYPE_OPTIONS], "nosniff", "{path}");
        assert_eq!(page.headers[REFERRER_POLICY], "same-origin", "{path}");
    }
}
