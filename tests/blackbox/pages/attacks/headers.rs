//! The headers that keep other sites from framing pages and content from running, on every kind of
//! response.

use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, IF_NONE_MATCH};
use serde_json::json;

use super::request;
use crate::harness::{Cluster, Response};
use crate::pages::accounts::{form_token, with_fields};
use crate::pages::page;

on_profiles! {
    embedded {
        every_kind_of_response_is_protected
        files_are_of_no_site
    }
}

#[track_caller]
fn is_protected(response: &Response, status: u16, about: &str) {
    assert_eq!(response.status.as_u16(), status, "{about}: {}", response.text());
    let policy = response.header("content-security-policy");
    for part in ["default-src 'none'", "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'"] {
        assert!(policy.split(';').any(|found| found.trim() == part), "{about}: {policy}");
    }
    assert!(!policy.contains("unsafe") && !policy.contains("script-src"), "{about}: {policy}");
    assert_eq!(response.header("x-content-type-options"), "nosniff", "{about}");
    assert_eq!(response.header("referrer-policy"), "same-origin", "{about}");
    if response.header("content-type").starts_with("text/html") {
        assert_eq!(response.header("cross-origin-opener-policy"), "same-origin", "{about}");
    }
}

async fn every_kind_of_response_is_protected(cluster: &Cluster) {
    let (ada, nobody) = (cluster.user("ada").await, cluster.anonymous());
    ada.new_repository("demo", json!({"auto_init": true})).await;
    let (path, organization) = (format!("/{}/demo", ada.name), ada.new_organization("acme").await);
    for (visitor, page_path, status) in [
        (&nobody, "/".to_owned(), 200),
        (&nobody, "/user/login".to_owned(), 200),
        (&nobody, path.clone(), 200),
        (&nobody, "/user/settings".to_owned(), 303),
        (&nobody, "/nobody-at-all".to_owned(), 404),
        (&ada, "/user/settings".to_owned(), 200),
        (&ada, "/user/login".to_owned(), 303),
        (&ada, format!("{path}.atom"), 200),
        (&ada, format!("{path}/commits"), 303),
        (&ada, format!("{path}/src/main"), 307),
        (&ada, format!("{path}/media/branch/main/README.md"), 307),
        (&ada, format!("{path}/no/page"), 404),
        (&ada, "/-/admin/users".to_owned(), 404),
        (&ada, format!("/org/{organization}/settings/avatar"), 405),
    ] {
        is_protected(&page(visitor, &page_path).await, status, &page_path);
    }
    let first = page(&ada, "/org/create").await;
    let again = request(&ada, Method::GET, "/org/create").header(IF_NONE_MATCH, first.header("etag"));
    is_protected(&Response::of(again).await, 304, "unchanged");

    let labels = format!("{path}/labels");
    let token = form_token(&page(&ada, &labels).await.text());
    let form = |name: &str, token: &str| {
        let fields = [("form_token", token), ("name", name), ("color", "#ff8000")];
        with_fields(request(&ada, Method::POST, &labels), &fields)
    };
    is_protected(&Response::of(form("bug", &token)).await, 303, "a form");
    is_protected(&Response::of(form("", &token)).await, 422, "a form with a mistake");
    is_protected(&Response::of(form("bug", "")).await, 403, "a form of elsewhere");
    let wrong = request(&ada, Method::POST, &labels).header(CONTENT_TYPE, "text/plain").body("x");
    is_protected(&Response::of(wrong).await, 415, "a form of another format");
    is_protected(&Response::of(request(&ada, Method::POST, "/search")).await, 405, "a wrong method");

    ada.patch(&ada.repo("demo", ""), &json!({"name": "renamed"})).await.expect(200);
    is_protected(&page(&ada, &path).await, 308, "a former name");
}

async fn files_are_of_no_site(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("demo", json!({"auto_init": true})).await;
    let branch = ada.get(&ada.repo("demo", "/branches/main")).await.expect(200).json();
    let commit = branch["commit"]["id"].as_str().unwrap();
    for rest in [
        "raw/branch/main/README.md".to_owned(),
        "archive/main.zip".to_owned(),
        format!("commit/{commit}.diff"),
        format!("commit/{commit}.patch"),
    ] {
        let file = page(&ada, &format!("/{}/demo/{rest}", ada.name)).await.expect(200);
        let policy = file.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none';") && policy.contains("sandbox"), "{rest}: {policy}");
        assert_eq!(file.header("x-content-type-options"), "nosniff", "{rest}");
        assert_eq!(file.header("referrer-policy"), "same-origin", "{rest}");
        // Browsers refuse it together with a sandbox.
        assert_eq!(file.header("cross-origin-opener-policy"), "", "{rest}");
    }
}
