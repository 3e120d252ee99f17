//! Creates tokens of all kinds, organizations and teams.

use std::time::{Duration, SystemTime};

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::client::{Response, User, unique};

impl User {
    /// A request to this user's tokens, with the password. `rest` follows the path of the
    /// collection.
    pub(crate) fn tokens(&self, method: Method, rest: &str) -> RequestBuilder {
        let request = self.raw(method, &format!("/api/v1/users/{}/tokens{rest}", self.name));
        request.basic_auth(&self.name, Some(&self.password))
    }

    pub(crate) async fn make_token(&self, body: &Value) -> Response {
        Response::of(self.tokens(Method::POST, "").json(body)).await
    }

    pub(crate) async fn token_list(&self) -> Response {
        Response::of(self.tokens(Method::GET, "")).await.expect(200)
    }

    /// This user with a new token; `more` is added to the request body.
    pub(crate) async fn with_new_token(&self, more: Value) -> Self {
        let mut body = json!({ "name": unique("token") });
        body.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        let made = self.make_token(&body).await.expect(201).json();
        self.with_token(made["sha1"].as_str())
    }

    pub(crate) async fn with_scopes(&self, scopes: &[&str]) -> Self {
        self.with_new_token(json!({ "scopes": scopes })).await
    }

    /// The address that those see who may not see this user's.
    pub(crate) fn no_reply_address(&self) -> String {
        let host = self.url.trim_start_matches("http://").split(':').next().unwrap_or_default();
        format!("{}@noreply.{host}", self.name)
    }

    /// The account as others see it beside what it did: without the profile that it wrote.
    pub(crate) async fn profile(&self) -> Value {
        let mut shown = self.get(&format!("/users/{}", self.name)).await.expect(200).json();
        shown
            .as_object_mut()
            .unwrap()
            .retain(|name, _| !matches!(name.as_str(), "website" | "location" | "description"));
        shown
    }

    pub(crate) async fn new_organization(&self, stem: &str) -> String {
        let name = unique(stem);
        self.post("/user/orgs", &json!({ "username": name })).await.expect(201);
        name
    }

    pub(crate) async fn new_repository_of(&self, organization: &str, name: &str, is_private: bool) -> i64 {
        let body = json!({ "name": name, "private": is_private, "auto_init": true });
        let made = self.post(&format!("/org/{organization}/repos"), &body).await.expect(201).json();
        made["id"].as_i64().unwrap()
    }

    pub(crate) async fn new_team(&self, organization: &str, name: &str, permission: &str) -> String {
        let body = json!({ "name": name, "permission": permission });
        let made = self.post(&format!("/orgs/{organization}/teams"), &body).await.expect(201).json();
        format!("/teams/{}", made["id"])
    }

    pub(crate) async fn team_of_owners(&self, organization: &str) -> String {
        let teams = self.get(&format!("/orgs/{organization}/teams")).await.expect(200).json();
        let owners = teams.as_array().unwrap().iter().find(|team| team["name"] == "Owners").unwrap();
        assert_eq!(owners["permission"], "owner");
        format!("/teams/{}", owners["id"])
    }

    /// Status of git's first request for a repository, with this secret as password.
    pub(crate) async fn git_status(&self, service: &str, owner: &str, name: &str, secret: &str) -> u16 {
        let path = format!("/{owner}/{name}.git/info/refs?service=git-{service}");
        let request = self.raw(Method::GET, &path).basic_auth(&self.name, Some(secret));
        Response::of(request).await.status.as_u16()
    }

    pub(crate) fn git_url_with_password(&self, owner: &str, name: &str) -> String {
        let password = self.password.replace(' ', "%20");
        format!("http://{}:{password}@{}/{owner}/{name}.git", self.name, self.url.trim_start_matches("http://"))
    }
}

/// A time in the future (RFC 3339).
pub(crate) fn after(wait: Duration) -> String {
    prost_types::Timestamp::from(SystemTime::now() + wait).to_string()
}

pub(crate) fn before(wait: Duration) -> String {
    prost_types::Timestamp::from(SystemTime::now() - wait).to_string()
}
