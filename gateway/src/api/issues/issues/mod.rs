//! Issues of a repository and those of the caller, one file for each operation with rules of its own.
//!
//! Not here: comments, labels, milestones and timelines, which have files beside this folder.

mod create;
mod list;
mod update;
mod user;

pub use self::list::ASSIGNEE_WORDS;

use ferrite_proto::issue::{self, GetIssueRequest};
use ferrite_proto::operation;

use crate::api::access::ResolvedAccess;
use crate::api::call::{ApiCall, Authenticated, routes};
use crate::dto::{Issue, require};
use crate::http::error::{ApiError, ApiResult};
use crate::http::json;
use crate::http::path::{Params, RepoPath};

routes! {
    "/api/v1/repos/{owner}/{repo}/issues" =>
        get list::list as operation::LIST_ISSUES,
        post create::create as operation::CREATE_ISSUE;
    "/api/v1/repos/{owner}/{repo}/issues/{index}" =>
        get get as operation::GET_ISSUE,
        patch update::update as operation::UPDATE_ISSUE;
    "/api/v1/user/issues" => get user::list as operation::LIST_USER_ISSUES;
    "/api/v1/issues" => get user::list as operation::LIST_USER_ISSUES;
}

async fn get(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult {
    let access = call.access(&path, operation::GET_ISSUE).await?;
    let request = GetIssueRequest { repository_id: access.id, number: params.id("index") };
    let response = call.clients.issues().get_issue(call.request_with_grant(&access.grant, request)).await?.into_inner();
    Ok(json::ok(convert_issue(&call, &access, response.issue).await?))
}

/// Converts an issue of a response, with its accounts.
async fn convert_issue(
    call: &ApiCall,
    access: &ResolvedAccess,
    issue: Option<issue::Issue>,
) -> Result<Issue, ApiError> {
    let issue = require(issue, "issue")?;
    let accounts = call.accounts_beside_caller(access, Issue::account_ids(&issue)).await?;
    Ok(Issue::new(issue, &accounts, &access.urls)?)
}
