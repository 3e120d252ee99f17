//! What may not be seen answers as what does not exist: the same status, headers and text, apart
//! from the name that was asked for.

use std::cell::{Cell, RefCell};

use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use serde_json::json;

use super::{request, routes};
use crate::harness::client::unique;
use crate::harness::concurrent::for_each;
use crate::harness::{Cluster, Response, User};
use crate::pages::accounts::form_token;
use crate::pages::page;

on_profiles! {
    embedded {
        a_private_repository_answers_as_a_missing_one
        a_hidden_organization_answers_as_a_missing_one
        a_private_fork_answers_as_a_missing_one
    }
}

const AT_ONCE: usize = 8;
const HIDDEN: &str = "concealed";
const MISSING: &str = "imaginary";
/// These differ each time, or with the length and the hash of the text.
const VARYING: [&str; 4] = ["content-length", "date", "etag", "x-request-id"];
/// The id of no commit.
const NO_COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const BEFORE_TOKEN: &str = "name=\"form_token\" value=\"";

/// A response with another name in place of one in it.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    status: u16,
    headers: Vec<(String, String)>,
    text: String,
}

impl Seen {
    fn of(response: &Response, from: &str, to: &str) -> Self {
        let named = |headers: &HeaderMap| {
            let kept = headers.iter().filter(|(name, _)| !VARYING.contains(&name.as_str()));
            let kept = kept.map(|(name, value)| (name.to_string(), value.to_str().unwrap().replace(from, to)));
            kept.collect::<Vec<_>>()
        };
        let mut headers = named(&response.headers);
        headers.sort();
        Self { status: response.status.as_u16(), headers, text: without_tokens(&response.text()).replace(from, to) }
    }
}

/// Tokens of forms differ each time.
fn without_tokens(html: &str) -> String {
    let mut parts = html.split(BEFORE_TOKEN);
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |text, part| text + part.split_once('"').unwrap().1)
}

/// Compares responses to two names.
struct Comparison<'a> {
    hidden: &'a str,
    missing: &'a str,
    stranger: &'a User,
    nobody: &'a User,
    /// Of a form of the stranger.
    token: String,
    compared: Cell<usize>,
    faults: RefCell<Vec<String>>,
}

impl<'a> Comparison<'a> {
    async fn new(hidden: &'a str, missing: &'a str, stranger: &'a User, nobody: &'a User) -> Self {
        let token = form_token(&page(stranger, "/repo/create").await.expect(200).text());
        Self { hidden, missing, stranger, nobody, token, compared: Cell::default(), faults: RefCell::default() }
    }

    /// Asks for pages whose path has the hidden name.
    async fn read(&self, path: &str) {
        for visitor in [self.stranger, self.nobody] {
            let hidden = page(visitor, path).await;
            let missing = page(visitor, &path.replace(self.hidden, self.missing)).await;
            self.compare(&format!("GET {path}"), &hidden, &missing);
        }
    }

    /// Sends forms to the path, with a token that is right.
    async fn write(&self, path: &str) {
        let form = format!("form_token={}", self.token);
        let hidden = self.send_both(path, "application/x-www-form-urlencoded", &form).await;
        if matches!(hidden.status.as_u16(), 400 | 415) {
            let head = "--xyz\r\nContent-Disposition: form-data; name=\"form_token\"\r\n\r\n";
            let parts = format!("{head}{}\r\n--xyz--\r\n", self.token);
            self.send_both(path, "multipart/form-data; boundary=xyz", &parts).await;
        }
    }

    /// Returns the response to the hidden name.
    async fn send_both(&self, path: &str, media: &str, body: &str) -> Response {
        let send = async |path: &str| {
            let request = request(self.stranger, Method::POST, path).header(CONTENT_TYPE, media);
            Response::of(request.body(body.to_owned())).await
        };
        let (hidden, missing) = (send(path).await, send(&path.replace(self.hidden, self.missing)).await);
        self.compare(&format!("POST {path}"), &hidden, &missing);
        hidden
    }

    fn compare(&self, about: &str, hidden: &Response, missing: &Response) {
        let (hidden, missing) =
            (Seen::of(hidden, self.hidden, self.missing), Seen::of(missing, self.hidden, self.missing));
        self.compared.set(self.compared.get() + 1);
        if hidden != missing {
            let (one, other) = (shown(&hidden), shown(&missing));
            self.faults.borrow_mut().push(format!("{about}:\n{one}\n{other}"));
        }
    }

    fn assert(self, min_compared: usize) {
        let (compared, faults) = (self.compared.get(), self.faults.into_inner());
        assert!(faults.is_empty(), "{} of {compared} differ:\n{}", faults.len(), faults.join("\n"));
        assert!(compared >= min_compared, "only {compared} were compared");
    }
}

fn shown(seen: &Seen) -> String {
    let main = seen.text.split("<main").nth(1).unwrap_or(&seen.text);
    format!("{} {:?} {}", seen.status, seen.headers, main.chars().take(300).collect::<String>())
}

async fn a_private_repository_answers_as_a_missing_one(cluster: &Cluster) {
    let (ada, eve, nobody) = (cluster.user("ada").await, cluster.outsider().await, cluster.anonymous());
    let repo = ada.new_tracker(HIDDEN, json!({"private": true, "auto_init": true})).await;
    ada.new_issue(&repo, "Title", json!({})).await;
    ada.post(&format!("{repo}/releases"), &json!({"tag_name": "v1", "body": "Notes"})).await.expect(201);
    let home = json!({"title": "Home", "content_base64": "SG9tZQ=="});
    ada.post(&format!("{repo}/wiki/new"), &home).await.expect(201);
    let branch = ada.get(&format!("{repo}/branches/main")).await.expect(200).json();
    let commit = branch["commit"]["id"].as_str().unwrap();

    let comparison = Comparison::new(HIDDEN, MISSING, &eve, &nobody).await;
    let names = [("owner", ada.name.as_str()), ("repo", HIDDEN), ("sha", commit)];
    let routes = routes::all().into_iter().filter(|route| route.path.starts_with("/{owner}/{repo}"));
    let (found, others) = (Cell::new(0), RefCell::new(Vec::new()));
    for_each(AT_ONCE, routes, async |route: routes::Route| {
        let path = routes::filled(&route.path, &names);
        if route.has_page {
            comparison.read(&path).await;
            match page(&ada, &path).await.status.as_u16() {
                200 => found.set(found.get() + 1),
                status => others.borrow_mut().push(format!("{status} {path}")),
            }
        }
        if route.has_form {
            comparison.write(&path).await;
        }
    })
    .await;
    for rest in [
        ".atom".to_owned(),
        format!("/raw/commit/{commit}/README.md"),
        format!("/commit/{commit}.diff"),
        format!("/archive/{commit}.zip"),
        format!("/compare/{commit}...{commit}.patch"),
        "/src/main/README.md".to_owned(),
        "/issues/2".to_owned(),
        "/releases/latest".to_owned(),
        "/no/page".to_owned(),
    ] {
        comparison.read(&format!("/{}/{HIDDEN}{rest}", ada.name)).await;
    }
    assert!(found.get() > 30, "the owner sees only {} pages, not {:?}", found.get(), others.borrow());
    comparison.assert(200);
}

async fn a_hidden_organization_answers_as_a_missing_one(cluster: &Cluster) {
    let (ada, eve, nobody) = (cluster.user("ada").await, cluster.outsider().await, cluster.anonymous());
    let name = unique(HIDDEN);
    let missing = name.replace(HIDDEN, MISSING);
    ada.post("/user/orgs", &json!({"username": name, "visibility": "private"})).await.expect(201);
    ada.new_repository_of(&name, "tools", false).await;
    ada.new_issue(&format!("/repos/{name}/tools"), "Title", json!({})).await;

    let comparison = Comparison::new(&name, &missing, &eve, &nobody).await;
    let names = [
        ("owner", name.as_str()),
        ("repo", "tools"),
        ("org", name.as_str()),
        ("member", ada.name.as_str()),
        ("sha", "0000000"),
    ];
    let is_of_owner = |path: &str| {
        path.starts_with("/org/{org}") || path == "/{owner}" || (path.starts_with("/{owner}/") && !path.contains('*'))
    };
    let routes = routes::all().into_iter().filter(|route| is_of_owner(&route.path));
    for_each(AT_ONCE, routes, async |route: routes::Route| {
        let path = routes::filled(&route.path, &names);
        if route.has_page {
            comparison.read(&path).await;
        }
        if route.has_form {
            comparison.write(&path).await;
        }
    })
    .await;
    for rest in [".atom", "?tab=activity", "/tools.atom"] {
        comparison.read(&format!("/{name}{rest}")).await;
    }
    comparison.assert(200);
}

async fn a_private_fork_answers_as_a_missing_one(cluster: &Cluster) {
    let (ada, eve, nobody) = (cluster.user("ada").await, cluster.outsider().await, cluster.anonymous());
    // Bob has a fork, and Carol has none.
    let (bob, carol) = (cluster.user("bob").await, cluster.user("carol").await);
    let repo = ada.new_tracker("open", json!({"auto_init": true})).await;
    bob.post(&format!("{repo}/forks"), &json!({"name": "open"})).await.expect(201);
    bob.patch(&bob.repo("open", ""), &json!({"private": true})).await.expect(200);

    let comparison = Comparison::new(&bob.name, &carol.name, &eve, &nobody).await;
    let (path, name) = (format!("/{}/open", ada.name), &bob.name);
    for rest in [
        format!("/compare/main...{name}:main"),
        format!("/compare/main...{name}:main.diff"),
        format!("/compare/main...{name}:nothing"),
        format!("/compare/{name}:main...main"),
        format!("/compare?base=main&head={name}:main"),
        format!("/pulls/new/main...{name}:nothing"),
    ] {
        comparison.read(&format!("{path}{rest}")).await;
    }
    for rest in ["", "/issues", "/src/branch/main", "/commits/branch/main", "/pulls/new/main...main"] {
        comparison.read(&format!("/{name}/open{rest}")).await;
    }
    comparison.assert(20);

    // Forks may share objects, and a commit is found by its id.
    let file = json!({"content": "c2VjcmV0", "branch": "main"});
    let made = bob.post(&bob.repo("open", "/contents/secret.txt"), &file).await.expect(201).json();
    let commit = made["commit"]["sha"].as_str().unwrap();
    page(&bob, &format!("/{name}/open/commit/{commit}")).await.expect(200);
    let comparison = Comparison::new(commit, NO_COMMIT, &eve, &nobody).await;
    for rest in [
        format!("/commit/{commit}"),
        format!("/commit/{commit}.diff"),
        format!("/commit/{commit}.patch"),
        format!("/commits/commit/{commit}"),
        format!("/commits/{commit}"),
        format!("/src/commit/{commit}"),
        format!("/src/commit/{commit}/secret.txt"),
        format!("/blame/commit/{commit}/secret.txt"),
        format!("/find/commit/{commit}?q=secret"),
        format!("/raw/commit/{commit}/secret.txt"),
        format!("/archive/{commit}.zip"),
        format!("/compare/main...{commit}"),
        format!("/compare/main...{commit}.diff"),
    ] {
        comparison.read(&format!("{path}{rest}")).await;
    }
    comparison.assert(26);
    for visitor in [&eve, &nobody] {
        let forks = page(visitor, &format!("{path}/forks")).await.expect(200).text();
        assert!(!forks.contains(&format!("/{name}/open")), "{forks}");
    }
}
