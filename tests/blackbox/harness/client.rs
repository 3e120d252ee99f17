//! Users of an installation, their requests, and responses.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};

use super::cluster::{ADMIN, Cluster};
use super::document;

/// The gateway closes idle connections after a minute, possibly just when a request is sent.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(5);

fn client() -> reqwest::Client {
    let client = reqwest::Client::builder().no_proxy().pool_idle_timeout(POOL_IDLE_TIMEOUT);
    client.redirect(reqwest::redirect::Policy::none()).build().unwrap()
}

#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Response {
    /// Sends a request. Fails unless the OpenAPI document allows the response.
    pub(crate) async fn of(request: RequestBuilder) -> Self {
        Self::try_of(request).await.unwrap()
    }

    /// Like [`Self::of`], for a gateway that may be down.
    pub(crate) async fn try_of(request: RequestBuilder) -> Result<Self, reqwest::Error> {
        let (client, request) = request.build_split();
        let request = request?;
        let (method, path) = (request.method().clone(), request.url().path().to_owned());
        let response = client.execute(request).await?;
        let (status, headers) = (response.status(), response.headers().clone());
        let response = Self { status, headers, body: response.bytes().await?.into() };
        document::check(&method, &path, &response);
        Ok(response)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A field of every object in a list, as text.
    #[track_caller]
    pub(crate) fn each(&self, field: &str) -> Vec<String> {
        let list = self.json();
        let list = list.as_array().unwrap_or_else(|| panic!("not a list: {list}"));
        list.iter().map(|item| item[field].as_str().unwrap_or_default().to_owned()).collect()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {} {:?}", self.status, self.text()))
    }

    /// Empty if absent.
    pub(crate) fn header(&self, name: &str) -> String {
        self.headers.get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
    }

    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status.as_u16(), status, "{}", self.text());
        self
    }

    /// Fails unless this is an error object with this status.
    #[track_caller]
    pub(crate) fn refused(self, status: u16) -> Self {
        let response = self.expect(status);
        let value = response.json();
        assert!(value["message"].as_str().is_some_and(|text| !text.is_empty()), "{value}");
        assert!(value["url"].as_str().is_some_and(|text| text.starts_with("http")), "{value}");
        assert_eq!(response.header("content-type"), "application/json; charset=UTF-8");
        response
    }

    /// Fails unless this is an error object with one of these statuses.
    #[track_caller]
    pub(crate) fn refused_any(self, statuses: &[u16]) -> Self {
        let status = self.status.as_u16();
        assert!(statuses.contains(&status), "{status}: {}", self.text());
        self.refused(status)
    }

    /// Fails unless this is a 422 for exactly this field.
    #[track_caller]
    pub(crate) fn refused_field(self, field: &str) -> Self {
        let response = self.refused(422);
        let value = response.json();
        assert!(value["errors"].as_array().is_some_and(|errors| errors.len() == 1), "{value}");
        assert_eq!(value["errors"][0]["field"], field, "{value}");
        response
    }

    /// Fails unless this is an error object with this status, whose message contains `part`.
    #[track_caller]
    pub(crate) fn refused_with_message(self, status: u16, part: &str) -> Self {
        let response = self.refused(status);
        assert!(
            response.json()["message"].as_str().is_some_and(|text| text.contains(part)),
            "{part}: {}",
            response.text()
        );
        response
    }

    /// Fails unless the status matches and the body is empty.
    #[track_caller]
    pub(crate) fn empty(self, status: u16) -> Self {
        let response = self.expect(status);
        assert!(response.body.is_empty() && response.header("content-type").is_empty(), "{:?}", response.text());
        response
    }

    #[track_caller]
    pub(crate) fn refused_fields(self, fields: &[(&str, &str)]) -> Self {
        let response = self.refused(422);
        let value = response.json();
        let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        let found: Vec<_> = value["errors"].as_array().into_iter().flatten().collect();
        let pairs: Vec<_> = found.iter().map(|entry| (text(entry, "field"), text(entry, "code"))).collect();
        let wanted: Vec<_> = fields.iter().map(|(field, code)| ((*field).to_owned(), (*code).to_owned())).collect();
        assert_eq!(pairs, wanted, "{value}");
        assert!(found.iter().all(|entry| !text(entry, "message").is_empty()), "{value}");
        response
    }
}

/// An API client: a user with a token, or anonymous.
#[derive(Clone)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) password: String,
    pub(crate) email: String,
    pub(crate) token: Option<String>,
    pub(crate) id: i64,
    pub(crate) url: String,
    http: reqwest::Client,
}

/// A name that no other test uses.
pub(crate) fn unique(stem: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{stem}-{}", NEXT.fetch_add(1, Ordering::SeqCst))
}

impl Cluster {
    pub(crate) fn anonymous(&self) -> User {
        User {
            name: String::new(),
            password: String::new(),
            email: String::new(),
            token: None,
            id: 0,
            url: self.url.clone(),
            http: client(),
        }
    }

    pub(crate) async fn admin(&self) -> User {
        let mut admin = self.anonymous();
        (admin.name, admin.password) = (ADMIN.0.to_owned(), ADMIN.1.to_owned());
        let token = self.admin_token.get_or_init(|| async { admin.new_token("tests").await }).await;
        admin.token = Some(token.clone());
        admin
    }

    /// A user without any access, shared by tests that do not change it: creating an account takes
    /// two password hashes.
    pub(crate) async fn outsider(&self) -> User {
        self.outsider.get_or_init(|| self.user("outsider")).await.reconnected()
    }

    /// Creates a user with a token. The name begins with `stem`.
    pub(crate) async fn user(&self, stem: &str) -> User {
        let mut user = self.anonymous();
        user.name = unique(stem);
        user.password = format!("password of {}", user.name);
        user.email = format!("{}@example.com", user.name);
        let body = json!({
            "username": user.name, "email": user.email, "password": user.password, "full_name": format!("The {stem}"),
        });
        let made = self.admin().await.post("/admin/users", &body).await.expect(201).json();
        user.id = made["id"].as_i64().unwrap();
        user.token = Some(user.new_token("tests").await);
        user
    }
}

impl User {
    pub(crate) async fn new_token(&self, name: &str) -> String {
        let request = self.raw(Method::POST, &format!("/api/v1/users/{}/tokens", self.name));
        let request = request.basic_auth(&self.name, Some(&self.password)).json(&json!({ "name": name }));
        Response::of(request).await.expect(201).json()["sha1"].as_str().unwrap().to_owned()
    }

    /// This user with another token, or without one.
    pub(crate) fn with_token(&self, token: Option<&str>) -> Self {
        Self { token: token.map(str::to_owned), ..self.clone() }
    }

    /// This user at the gateway with this URL, over new connections.
    pub(crate) fn at(&self, url: &str) -> Self {
        Self { url: url.to_owned(), ..self.reconnected() }
    }

    /// This user over new connections. Connections end with the test that opened them.
    pub(crate) fn reconnected(&self) -> Self {
        Self { http: client(), ..self.clone() }
    }

    /// A request without credentials; `path` starts after the host.
    pub(crate) fn raw(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url))
    }

    /// A request with the token; `path` starts after `/api/v1`.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.raw(method, &format!("/api/v1{path}"));
        match &self.token {
            Some(token) => request.header("authorization", format!("token {token}")),
            None => request,
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        Response::of(self.request(Method::GET, path)).await
    }

    /// Repeats the GET until `wanted` accepts the response: events take a moment to reach other
    /// services.
    pub(crate) async fn eventually(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut response = Value::Null;
        for _ in 0..400 {
            response = self.get(path).await.expect(200).json();
            if wanted(&response) {
                return response;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!("{path} did not reach the expected state: {response}");
    }

    pub(crate) async fn get_with(&self, path: &str, name: HeaderName, value: &str) -> Response {
        Response::of(self.request(Method::GET, path).header(name, value)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Response {
        Response::of(self.request(Method::POST, path).json(body)).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Response {
        Response::of(self.request(Method::PUT, path).json(body)).await
    }

    /// Sends a PUT without body and content type, like `curl -X PUT`.
    pub(crate) async fn put_nothing(&self, path: &str) -> Response {
        Response::of(self.request(Method::PUT, path)).await
    }

    pub(crate) async fn patch(&self, path: &str, body: &Value) -> Response {
        Response::of(self.request(Method::PATCH, path).json(body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Response {
        Response::of(self.request(Method::DELETE, path)).await
    }

    pub(crate) async fn new_repository(&self, name: &str, more: Value) -> Value {
        let mut body = json!({ "name": name });
        body.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        self.post("/user/repos", &body).await.expect(201).json()
    }

    /// The path of this user's repository below `/api/v1`, followed by `rest`.
    pub(crate) fn repo(&self, name: &str, rest: &str) -> String {
        format!("/repos/{}/{name}{rest}", self.name)
    }

    /// The git URL of a repository, with this user's token if there is one.
    pub(crate) fn git_url(&self, owner: &str, name: &str) -> String {
        let host = self.url.trim_start_matches("http://");
        match &self.token {
            Some(token) => format!("http://{}:{token}@{host}/{owner}/{name}.git", self.name),
            None => format!("http://{host}/{owner}/{name}.git"),
        }
    }
}
