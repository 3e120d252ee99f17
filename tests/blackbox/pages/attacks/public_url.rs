//! An installation below a path of an https site: where its links lead, whom its cookies reach, and
//! what is seen without an account.

use reqwest::Method;
use reqwest::header::{COOKIE, ORIGIN};
use serde_json::json;

use super::closed::{self, PUBLIC_URL, ROOT, SESSION_COOKIE, SITE, SignInPage};
use super::{html, routes};
use crate::harness::concurrent::for_each;
use crate::harness::{Cluster, Response, User};
use crate::pages::accounts::{form_token, with_fields};

mod embedded {
    #[test]
    fn links_lead_below_the_public_url() {
        super::closed::run(super::links_lead_below_the_public_url);
    }

    #[test]
    fn cookies_are_of_one_host_and_encrypted() {
        super::closed::run(super::cookies_are_of_one_host_and_encrypted);
    }

    #[test]
    fn nothing_is_shown_without_an_account() {
        super::closed::run(super::nothing_is_shown_without_an_account);
    }
}

const HOME: [u8; 4] = [127, 0, 77, 9];
const AT_ONCE: usize = 8;

/// Creates a public repository with an issue. Returns its owner and its path.
async fn public_repository(cluster: &Cluster) -> (User, String) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("demo", json!({"auto_init": true})).await;
    ada.new_issue(&repo, "Title", json!({})).await;
    let path = format!("/{}/demo", ada.name);
    (ada, path)
}

async fn links_lead_below_the_public_url(cluster: &Cluster) {
    let (ada, path) = public_repository(cluster).await;
    let mut pages: Vec<String> =
        ["/", "/explore/repos", "/search?q=demo", "/user/settings", "/repo/create"].map(str::to_owned).into();
    for rest in [
        "",
        "/issues",
        "/issues/new",
        "/labels",
        "/src/branch/main/README.md",
        "/_edit/main/README.md",
        "/blame/branch/main/README.md",
        "/commits/branch/main",
        "/branches",
        "/releases",
        "/settings",
        "/settings/hooks/native/new",
        "/no/page",
    ] {
        pages.push(format!("{path}{rest}"));
    }
    for page in pages {
        let shown = closed::page(&ada, &page).await.text();
        assert!(!shown.contains(&cluster.url), "{page} names the address behind the proxy");
        for element in html::elements(&shown) {
            for name in ["href", "src", "action"] {
                let value = element.attribute(name).unwrap_or_default();
                let is_below = value.strip_prefix(ROOT).is_some_and(|rest| rest.starts_with('/'));
                assert!(!value.starts_with('/') || is_below, "{page}: {element:?}");
            }
        }
    }
    for (from, to) in [
        ("/commits", "/commits/branch/main"),
        ("/src/main/README.md", "/src/branch/main/README.md"),
        ("/media/branch/main/README.md", "/raw/branch/main/README.md"),
        ("/commits/main", "/commits/branch/main"),
    ] {
        let location = closed::page(&ada, &format!("{path}{from}")).await.header("location");
        assert_eq!(location, format!("{ROOT}{path}{to}"));
    }
    let feed = closed::page(&ada, &format!("{path}/atom/branch/main")).await.expect(200).text();
    assert!(feed.contains(&format!("href=\"{PUBLIC_URL}{path}/commit/")) && !feed.contains(&cluster.url), "{feed}");

    let front = closed::page(&ada, "/").await.expect(200).text();
    let style = html::elements(&front).into_iter().find(|element| element.attribute("rel") == Some("stylesheet"));
    let style = style.unwrap().attribute("href").unwrap().to_owned();
    let style = Response::of(ada.raw(Method::GET, style.strip_prefix(ROOT).unwrap())).await.expect(200);
    assert_eq!(style.header("content-type"), "text/css; charset=utf-8");
    ada.patch(&ada.repo("demo", ""), &json!({"name": "renamed"})).await.expect(200);
    let moved = closed::page(&ada, &format!("{path}/issues")).await.expect(308).header("location");
    assert_eq!(moved, format!("{ROOT}/{}/renamed/issues", ada.name));
}

/// The name, the value and the sorted attributes of each cookie that a response sets.
fn cookies(response: &Response) -> Vec<(String, String, Vec<String>)> {
    let read = |cookie: &str| {
        let (pair, attributes) = cookie.split_once("; ").unwrap();
        let (name, value) = pair.split_once('=').unwrap();
        let mut attributes: Vec<_> = attributes.split("; ").map(str::to_owned).collect();
        attributes.retain(|attribute| !attribute.starts_with("Max-Age="));
        attributes.sort();
        (name.to_owned(), value.to_owned(), attributes)
    };
    response.headers.get_all("set-cookie").iter().map(|cookie| read(cookie.to_str().unwrap())).collect()
}

async fn cookies_are_of_one_host_and_encrypted(cluster: &Cluster) {
    let (ada, nobody) = (cluster.user("ada").await, cluster.anonymous());
    // Browsers take the prefix with the path of the host alone.
    let attributes = ["HttpOnly", "Path=/", "SameSite=Lax", "Secure"];
    let opened = cookies(&closed::page(&nobody, "/user/login").await);
    assert_eq!(opened.len(), 1);
    assert_eq!((opened[0].0.as_str(), &opened[0].2[..]), ("__Host-ferrite_form", &attributes.map(str::to_owned)[..]));

    let page = SignInPage::open(cluster, HOME).await;
    for origin in
        [cluster.url.as_str(), "http://git.example.com", "https://git.example.com:8443", "https://evil.example", "null"]
    {
        let refused = page.send_from(origin, &ada.name, &ada.password, "/").await.expect(403);
        assert!(cookies(&refused).iter().all(|(name, ..)| name != SESSION_COOKIE), "{origin}");
    }
    let signed_in = page.send(&ada.name, &ada.password, &format!("/{}", ada.name)).await.expect(303);
    assert_eq!(signed_in.header("location"), format!("{ROOT}/{}", ada.name));
    let set = cookies(&signed_in);
    assert!(set.iter().all(|(.., found)| *found == attributes), "{set:?}");
    let session = set.into_iter().find(|(name, ..)| name == SESSION_COOKIE).unwrap().1;
    let signed_in = ada.with_token(Some(&session));
    closed::page(&signed_in, "/user/settings").await.expect(200);

    // Another host, or a page without TLS, could have set it under this name.
    let plain = nobody.raw(Method::GET, "/user/settings").header(COOKIE, format!("ferrite_session={session}"));
    Response::of(plain).await.expect(303);

    let token = form_token(&closed::page(&signed_in, "/org/create").await.expect(200).text());
    for (origin, status) in [(cluster.url.as_str(), 403), (SITE, 422)] {
        let form = closed::request(&signed_in, Method::POST, "/org/create").header(ORIGIN, origin);
        Response::of(with_fields(form, &[("form_token", &token), ("username", "")])).await.expect(status);
    }
}

async fn nothing_is_shown_without_an_account(cluster: &Cluster) {
    let (ada, path) = public_repository(cluster).await;
    let nobody = cluster.anonymous();
    let names = [
        ("owner", ada.name.as_str()),
        ("repo", "demo"),
        ("org", "acme"),
        ("username", ada.name.as_str()),
        ("member", ada.name.as_str()),
        ("sha", "0000000"),
    ];
    let is_closed = |route: &routes::Route| !matches!(route.path.as_str(), "/user/login" | "/robots.txt");
    for_each(AT_ONCE, routes::all().into_iter().filter(is_closed), async |route: routes::Route| {
        let path = routes::filled(&route.path, &names);
        for (method, is_there) in [(Method::GET, route.has_page), (Method::POST, route.has_form)] {
            if !is_there {
                continue;
            }
            let response = closed::request(&nobody, method.clone(), &path);
            let location = Response::of(response).await.expect(303).header("location");
            assert!(location.starts_with(&format!("{ROOT}/user/login?redirect_to=%2F")), "{method} {path}: {location}");
        }
    })
    .await;
    nobody.get(&ada.repo("demo", "")).await.refused(401);
    nobody.get("/repos/search").await.refused(401);
    let refs = nobody.raw(Method::GET, &format!("{path}/info/refs?service=git-upload-pack"));
    Response::of(refs).await.expect(401);
    nobody.get("/version").await.expect(200);
    let shown = closed::page(&nobody, "/user/login").await.expect(200).text();
    assert!(shown.contains("name=\"password\"") && !shown.contains(&ada.name), "{shown}");
}
