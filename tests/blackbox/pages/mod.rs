//! Web pages, as browsers get them.

mod accounts;
mod administration;
mod attacks;
mod bounds;
mod code;
mod editor;
mod gallery;
mod history;
mod hooks;
mod imports;
mod issues;
mod links;
mod organizations;
mod pulls;
mod settings;
mod showcase;
mod tour;
mod wiki;

use reqwest::Method;

use crate::harness::{Response, User};

/// Reads a page with the session of a user, or without one.
pub(crate) async fn page(user: &User, path: &str) -> Response {
    let request = user.raw(Method::GET, path);
    let request = match &user.token {
        Some(token) => request.header("cookie", format!("ferrite_session={token}")),
        None => request,
    };
    Response::of(request).await
}

/// Fails unless the page has all these texts, and no script.
#[track_caller]
pub(crate) fn shows(page: &Response, texts: &[&str]) {
    let html = page.text();
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8", "{html}");
    for text in texts {
        assert!(html.contains(text), "{text} is not in {html}");
    }
    assert!(!html.contains("<script"), "{html}");
}
