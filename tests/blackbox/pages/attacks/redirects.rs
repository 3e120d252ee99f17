//! Return addresses and odd paths that a browser could take for those of another site.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Url;
use serde_json::json;

use super::closed::{self, PUBLIC_URL, ROOT, SignInPage};
use super::html;
use crate::harness::{Cluster, Response};

mod embedded {
    #[test]
    fn a_return_address_leads_to_this_site_alone() {
        super::closed::run(super::a_return_address_leads_to_this_site_alone);
    }

    #[test]
    fn an_odd_path_leads_to_no_other_site() {
        super::closed::run(super::an_odd_path_leads_to_no_other_site);
    }
}

/// Browsers remove tabs and line breaks, and take a backslash for a slash.
const HOSTILE: [&str; 32] = [
    "//evil.example",
    "///evil.example",
    "////evil.example/x",
    "/\\evil.example",
    "\\/evil.example",
    "\\\\evil.example",
    "/\t/evil.example",
    "/\n/evil.example",
    "/\r\n/evil.example",
    "\t//evil.example",
    " //evil.example",
    "/ /evil.example",
    "\u{0}//evil.example",
    "\u{2028}//evil.example",
    "/\u{ff0f}evil.example",
    "https:evil.example",
    "https:/evil.example",
    "https://evil.example/",
    "https://git.example.com@evil.example/",
    "//git.example.com@evil.example/git/",
    "javascript:alert(1)",
    "data:text/html,x",
    "evil.example",
    "@evil.example",
    ".evil.example",
    ":80@evil.example",
    "/..//evil.example",
    "/../evil",
    "/%2e%2E/evil",
    "/x/.%2e/../evil",
    "/x\r\nset-cookie: a=b",
    "/x\r\n\r\n<script>",
];
/// Paths of this site.
const OWN: [&str; 5] = ["/%2f/evil.example", "/%5cevil.example", "/@evil.example", "/x?to=//evil.example", "/x#//evil"];
/// Paths with the host of another site in place of an owner.
const ODD: [&str; 7] = [
    "//evil.example/x/media/y",
    "/%5Cevil.example/x/media/y",
    "/%2F%2Fevil.example/x/media/y",
    "/%2Fevil.example/x/raw/y",
    "/evil.example%2F/x/media/y",
    "/x/%5C%5Cevil.example/media/y",
    "/%09/evil.example/media/y",
];
/// Signing in takes a while.
const SIGN_INS: usize = 8;
const HOME: [u8; 4] = [127, 0, 79, 1];

/// Returns where a browser would go.
fn target(path: &str, to: &str) -> Url {
    Url::parse(&format!("{PUBLIC_URL}{path}")).unwrap().join(to).unwrap()
}

fn is_own(url: &Url) -> bool {
    let is_below = url.path().strip_prefix(ROOT).is_some_and(|rest| rest.starts_with('/'));
    url.origin() == Url::parse(PUBLIC_URL).unwrap().origin() && is_below
}

#[track_caller]
fn stays(response: &Response, path: &str, about: &str) {
    let location = response.clone().expect(303).header("location");
    assert!(is_own(&target(path, &location)), "{about:?} leads to {location}");
    assert_eq!(response.headers.get_all("set-cookie").iter().filter(|cookie| *cookie == "a=b").count(), 0);
}

async fn a_return_address_leads_to_this_site_alone(cluster: &Cluster) {
    let (ada, nobody) = (cluster.user("ada").await, cluster.anonymous());
    ada.new_repository("demo", json!({})).await;
    let stars = format!("/{}/demo/stars", ada.name);
    let sign_in = |to: &str| format!("/user/login?redirect_to={}", utf8_percent_encode(to, NON_ALPHANUMERIC));
    for text in HOSTILE.into_iter().chain(OWN) {
        let path = sign_in(text);
        stays(&closed::page(&ada, &path).await, &path, text);
        let shown = closed::page(&nobody, &path).await.expect(200).text();
        let elements = html::elements(&shown);
        let field = elements.iter().find(|element| element.attribute("name") == Some("redirect_to")).unwrap();
        let to = format!("{ROOT}{}", field.attribute("value").unwrap());
        assert!(is_own(&target(&path, &to)), "{text:?} becomes {to}");
        let starred = closed::send(&ada, &stars, &[("action", "star"), ("redirect_to", text)]).await;
        stays(&starred, &stars, text);
    }
    for text in HOSTILE.into_iter().step_by(HOSTILE.len() / SIGN_INS) {
        let page = SignInPage::open(cluster, HOME).await;
        stays(&page.send(&ada.name, &ada.password, text).await, "/user/login", text);
    }
    for text in OWN {
        let location = closed::page(&ada, &sign_in(text)).await.expect(303).header("location");
        assert_eq!(location, format!("{ROOT}{text}"), "a path of this site");
    }
}

async fn an_odd_path_leads_to_no_other_site(cluster: &Cluster) {
    for visitor in [cluster.user("ada").await, cluster.anonymous()] {
        for path in ODD {
            let response = closed::page(&visitor, path).await;
            assert!(!response.status.is_server_error(), "{path}: {}", response.status);
            if response.status.is_redirection() {
                let location = response.header("location");
                assert!(is_own(&target(path, &location)), "{path} leads to {location}");
            }
        }
    }
}
