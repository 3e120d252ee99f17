//! REST v1: one file per resource of the contract.

mod access;
mod accounts;
mod admin;
mod branches;
mod commits;
mod contents;
mod hooks;
mod issues;
mod raw;
mod repos;
mod tokens;

use axum::Router;
use axum::routing::{delete, get, post};

use crate::state::Gateway;

/// The operations of the API.
pub(crate) fn routes() -> Router<Gateway> {
    Router::new()
        .route("/api/v1/users/{username}/tokens", get(tokens::list).post(tokens::create))
        .route("/api/v1/users/{username}/tokens/{name}", delete(tokens::remove))
        .route("/api/v1/admin/users", post(admin::create_user))
        .route("/api/v1/user", get(accounts::me))
        .route("/api/v1/users/{username}", get(accounts::get))
        .route("/api/v1/user/repos", get(repos::list_mine).post(repos::create))
        .route("/api/v1/users/{username}/repos", get(repos::list_of_user))
        .route("/api/v1/repos/search", get(repos::search))
        .route("/api/v1/repos/{owner}/{repo}", get(repos::get).delete(repos::remove))
        .route("/api/v1/repos/{owner}/{repo}/branches", get(branches::list))
        .route("/api/v1/repos/{owner}/{repo}/branches/{*branch}", get(branches::get))
        .route("/api/v1/repos/{owner}/{repo}/commits/{*sha}", get(commits::get))
        .route("/api/v1/repos/{owner}/{repo}/raw/{*file}", get(raw::get))
        .route("/api/v1/repos/{owner}/{repo}/contents", get(contents::get).put(contents::put))
        .route("/api/v1/repos/{owner}/{repo}/contents/{*file}", get(contents::get).put(contents::put))
        .route("/api/v1/repos/{owner}/{repo}/issues", get(issues::list).post(issues::create))
        .route("/api/v1/repos/{owner}/{repo}/issues/{index}", get(issues::get))
        .route("/api/v1/repos/{owner}/{repo}/hooks", get(hooks::list).post(hooks::create))
}

#[cfg(test)]
mod tests;
