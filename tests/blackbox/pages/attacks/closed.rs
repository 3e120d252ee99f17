//! An installation as an operator closes it: below a path of an https site, for people with an
//! account alone, who have few attempts to sign in. Its webhooks reach this machine.

use std::sync::OnceLock;

use reqwest::header::{COOKIE, ORIGIN};
use reqwest::{Method, RequestBuilder};

use crate::harness::receiver::LOOPBACK;
use crate::harness::{self, Cluster, Options, Profile, Response, User};
use crate::pages::accounts::{form_token, with_fields};

/// The proxy in front of it removes the path from requests.
pub(super) const PUBLIC_URL: &str = "https://git.example.com/git";
pub(super) const SITE: &str = "https://git.example.com";
pub(super) const ROOT: &str = "/git";
pub(super) const SESSION_COOKIE: &str = "__Host-ferrite_session";
/// Wrong passwords for one account.
pub(super) const MAX_ACCOUNT_FAILURES: usize = 3;
/// Wrong passwords from one address.
pub(super) const MAX_ADDRESS_FAILURES: usize = 5;

/// Runs a test on the installation, which all these tests share.
pub(super) fn run(test: impl AsyncFnOnce(&Cluster)) {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    let settings = [
        ("FERRITE_PUBLIC_URL", PUBLIC_URL),
        ("FERRITE_GATEWAY_REQUIRE_SIGN_IN", "all"),
        ("FERRITE_REPO_SIGN_IN_FAILURES_ACCOUNT", "3"),
        ("FERRITE_REPO_SIGN_IN_FAILURES_ADDRESS", "5"),
    ];
    let options = Options { settings: settings.into_iter().chain(LOOPBACK).collect(), ..Options::default() };
    let cluster = CLUSTER.get_or_init(|| Cluster::start(Profile::Embedded, &options));
    harness::run(cluster, test(cluster));
}

/// A request of a browser in which a user is signed in, if any.
pub(super) fn request(user: &User, method: Method, path: &str) -> RequestBuilder {
    let request = user.raw(method, path);
    match &user.token {
        Some(token) => request.header(COOKIE, format!("{SESSION_COOKIE}={token}")),
        None => request,
    }
}

pub(super) async fn page(user: &User, path: &str) -> Response {
    Response::of(request(user, Method::GET, path)).await
}

/// Sends a form with a token of the user's session.
pub(super) async fn send(user: &User, path: &str, fields: &[(&str, &str)]) -> Response {
    let token = form_token(&page(user, "/repo/create").await.expect(200).text());
    let fields: Vec<_> = [("form_token", token.as_str())].into_iter().chain(fields.iter().copied()).collect();
    Response::of(with_fields(request(user, Method::POST, path), &fields)).await
}

/// The page to sign in on, in a browser at an address of this machine.
pub(super) struct SignInPage {
    http: reqwest::Client,
    url: String,
    cookie: String,
    token: String,
}

impl SignInPage {
    pub(super) async fn open(cluster: &Cluster, address: [u8; 4]) -> Self {
        let http = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
        let http = http.local_address(Some(address.into())).build().unwrap();
        let url = format!("{}/user/login", cluster.url);
        let shown = Response::of(http.get(&url)).await.expect(200);
        let cookie = shown.header("set-cookie").split(';').next().unwrap().to_owned();
        Self { http, url, cookie, token: form_token(&shown.text()) }
    }

    pub(super) async fn send(&self, username: &str, password: &str, redirect_to: &str) -> Response {
        self.send_from(SITE, username, password, redirect_to).await
    }

    /// Sends the form as a page of another origin would.
    pub(super) async fn send_from(&self, origin: &str, username: &str, password: &str, to: &str) -> Response {
        let fields =
            [("form_token", self.token.as_str()), ("username", username), ("password", password), ("redirect_to", to)];
        let request = self.http.post(&self.url).header(COOKIE, &self.cookie).header(ORIGIN, origin);
        Response::of(with_fields(request, &fields)).await
    }
}
