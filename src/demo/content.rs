//! The example data: users, an organization, a repository with history, issues and a webhook.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::api::{Api, Authorization};
use super::server::ADMINISTRATOR;

pub(super) const OWNER: &str = "ada";
pub(super) const READER: &str = "brian";
pub(super) const REPOSITORY: &str = "acme/hello";

const PROGRAM: &str = "fn main() {\n    println!(\"Hello!\");\n}\n";
const USAGE: &str = "# Usage\n\nRun `cargo run`.\n";

/// Creates the data. All users share one password. Returns a token of [`OWNER`].
pub(super) async fn create(api: &Api, password: &str, receiver_url: &str) -> Result<String, String> {
    let administrator = Authorization::token(&create_token(api, ADMINISTRATOR, password).await?);
    tokio::try_join!(
        create_user(api, &administrator, OWNER, "Ada", password),
        create_user(api, &administrator, READER, "Brian", password),
    )?;
    let (token, reader_token) =
        tokio::try_join!(create_token(api, OWNER, password), create_token(api, READER, password))?;
    let (owner, reader) = (Authorization::token(&token), Authorization::token(&reader_token));
    api.post("/user/orgs", &owner, &json!({"username": "acme", "full_name": "Acme"})).await?;
    let repository = json!({
        "name": "hello",
        "description": "Says hello",
        "auto_init": true,
        "license": "MIT License",
        "gitignores": "Rust",
    });
    api.post("/org/acme/repos", &owner, &repository).await?;
    tokio::try_join!(create_commits(api, &owner), create_issues(api, &owner, &reader))?;
    // Last, because a webhook gets no earlier events.
    let hook = json!({
        "type": "native",
        "config": {"url": receiver_url, "content_type": "json"},
        "events": ["push", "issues", "issue_comment"],
        "active": true,
    });
    api.post(&format!("/repos/{REPOSITORY}/hooks"), &owner, &hook).await?;
    Ok(token)
}

async fn create_token(api: &Api, username: &str, password: &str) -> Result<String, String> {
    let authorization = Authorization::password(username, password);
    let created = api.post(&format!("/users/{username}/tokens"), &authorization, &json!({"name": "demo"})).await?;
    created["sha1"].as_str().map(str::to_owned).ok_or_else(|| "the response for a new token has no token".to_owned())
}

async fn create_user(
    api: &Api,
    administrator: &Authorization,
    username: &str,
    full_name: &str,
    password: &str,
) -> Result<(), String> {
    let user = json!({
        "username": username,
        "email": format!("{username}@example.com"),
        "full_name": full_name,
        "password": password,
    });
    api.post("/admin/users", administrator, &user).await.map(drop)
}

async fn create_commits(api: &Api, owner: &Authorization) -> Result<(), String> {
    let files = [("src/main.rs", "Add the program", PROGRAM), ("docs/usage.md", "Describe the usage", USAGE)];
    for (path, message, text) in files {
        let file = json!({"message": message, "content": STANDARD.encode(text)});
        api.put(&format!("/repos/{REPOSITORY}/contents/{path}"), owner, &file).await?;
    }
    Ok(())
}

async fn create_issues(api: &Api, owner: &Authorization, reader: &Authorization) -> Result<(), String> {
    let labels = format!("/repos/{REPOSITORY}/labels");
    let (bug, idea) = (json!({"name": "bug", "color": "#d73a4a"}), json!({"name": "idea", "color": "#0e8a16"}));
    let (bug, idea) = tokio::try_join!(api.post(&labels, owner, &bug), api.post(&labels, owner, &idea))?;
    let issues = format!("/repos/{REPOSITORY}/issues");
    let first = json!({
        "title": "The greeting has no name",
        "body": "`cargo run` prints `Hello!`, whoever runs it.",
        "labels": [bug["id"]],
    });
    let second = json!({"title": "Greet in other languages", "labels": [idea["id"]]});
    api.post(&issues, owner, &first).await?;
    let comment = json!({"body": "It could take the name as its first argument."});
    let comments = format!("{issues}/1/comments");
    tokio::try_join!(api.post(&issues, owner, &second), api.post(&comments, reader, &comment))?;
    Ok(())
}
