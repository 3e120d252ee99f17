//! The visitor's access tokens. The API needs the password to list, create and revoke them, so each
//! form asks for it.

use askama::Template;
use axum::http::{Method, StatusCode};
use ferrite_api_types::links::encode;
use ferrite_proto::Scope;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Section;
use crate::pages::components::Time;
use crate::pages::error::{PageError, PageResult};
use crate::pages::form::{Fields, Form, FormToken};
use crate::pages::visit::Visit;

const MAX_TOKENS: usize = 1_000;
const WRONG_PASSWORD: &str = "The password is wrong.";
const NO_SCOPE: &str = "Select at least one scope.";

#[derive(Clone, Debug, Deserialize)]
struct AccessToken {
    name: String,
    token_last_eight: String,
    created_at: Time,
    last_used_at: Option<Time>,
    scopes: Vec<String>,
    expires_at: Option<Time>,
    repositories: Option<Vec<String>>,
}

#[derive(Template)]
#[template(path = "settings/tokens.html")]
struct Tokens<'a> {
    token: FormToken,
    username: &'a str,
    fields: &'a Fields,
    /// `None` until the password was typed.
    tokens: Option<Vec<AccessToken>>,
    /// The value of a token that was just created; empty without one.
    value: String,
}

impl AccessToken {
    fn scopes(&self) -> String {
        if self.scopes.is_empty() { "no scopes".to_owned() } else { self.scopes.join(", ") }
    }

    fn repositories(&self) -> Option<String> {
        self.repositories.as_ref().map(|repositories| repositories.join(", "))
    }

    fn is_expired(&self) -> bool {
        self.expires_at.is_some_and(Time::is_past)
    }
}

impl Tokens<'_> {
    fn scopes(&self) -> [(&'static str, &'static str, bool); Scope::ALL.len()] {
        Scope::ALL.map(|scope| {
            let name = scope.as_str();
            (name, meaning(scope), self.fields.all("scopes").any(|chosen| chosen == name))
        })
    }
}

fn meaning(scope: Scope) -> &'static str {
    match scope {
        Scope::RepoRead => "see and clone private repositories",
        Scope::RepoWrite => "that, and push and commit",
        Scope::RepoAdmin => "that, and create, change and delete repositories",
        Scope::Issue => "issues, labels and milestones, and with repo:read pull requests",
        Scope::Hook => "webhooks of repositories",
        Scope::User => "addresses, follows, stars and watches",
        Scope::Org => "organizations, their members and teams",
        Scope::Admin => "administration of the site",
        Scope::Key => "add and remove SSH keys",
    }
}

pub(super) async fn show(visit: Visit) -> PageResult {
    visit.signed_in()?;
    page(&visit, &Fields::default(), None, String::new(), "")
}

fn page(visit: &Visit, fields: &Fields, tokens: Option<Vec<AccessToken>>, value: String, error: &str) -> PageResult {
    let username = &visit.signed_in()?.login;
    Section::Tokens.page(visit, &Tokens { token: FormToken::of(visit), username, fields, tokens, value }, error)
}

/// Lists, creates or revokes tokens.
pub(super) async fn change(Form { visit, fields }: Form) -> PageResult {
    let username = &visit.signed_in()?.login;
    let (api, path) = (visit.api.with_password(username, fields.text("password")), format!("users/{username}/tokens"));
    let changed = match fields.text("action") {
        "create" if fields.all("scopes").next().is_none() => {
            return page(&visit, &fields, None, String::new(), NO_SCOPE);
        }
        "create" => api.change(Method::POST, &path, Some(new_token(&fields))).await,
        "revoke" => {
            let path = format!("{path}/{}", encode(fields.text("name").as_bytes()));
            api.change(Method::DELETE, &path, None).await
        }
        _ => Ok(Value::Null),
    };
    let made = match changed {
        Ok(made) => made,
        Err(error) => return page(&visit, &fields, None, String::new(), &refusal(error)?),
    };
    let value = made["sha1"].as_str().unwrap_or_default().to_owned();
    match api.list(&format!("{path}?limit={MAX_TOKENS}")).await {
        Ok(listed) => page(&visit, &Fields::default(), Some(listed.items), value, ""),
        // The value is shown only here.
        Err(_) if !value.is_empty() => page(&visit, &Fields::default(), None, value, ""),
        Err(error) => page(&visit, &fields, None, value, &refusal(error)?),
    }
}

fn new_token(fields: &Fields) -> Value {
    let repositories: Vec<_> = fields.text("repositories").split_whitespace().collect();
    let scopes: Vec<_> = fields.all("scopes").collect();
    let mut body = json!({"name": fields.text("name").trim(), "scopes": scopes, "repositories": repositories});
    let day = fields.text("expires_at").trim();
    if !day.is_empty() {
        body["expires_at"] = format!("{day}T00:00:00Z").into();
    }
    body
}

fn refusal(error: PageError) -> PageResult<String> {
    match error.status() {
        StatusCode::UNAUTHORIZED => Ok(WRONG_PASSWORD.to_owned()),
        StatusCode::NOT_FOUND => Ok(error.message()),
        _ => error.mistake(),
    }
}
