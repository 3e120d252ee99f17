//! Branches of a repository. Not here: their protection.

use axum::extract::State;
use axum::response::Response;
use ferrite_proto::git::{GetBranchRequest, ListBranchesRequest};
use ferrite_proto::operation;

use super::access::Emails;
use super::git_response::read_error;
use super::state::ApiState;
use crate::auth::Authenticated;
use crate::dto::{Branch, require};
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::RepoPath;
use crate::http::query::Query;
use crate::http::routes::routes;

routes! { ApiState:
    "/api/v1/repos/{owner}/{repo}/branches" => get list as operation::LIST_BRANCHES;
    "/api/v1/repos/{owner}/{repo}/branches/{*branch}" => get get as operation::GET_BRANCH;
}

async fn list(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    query: Query,
) -> Result<Response, ApiError> {
    let access = api.access(&context, &path, operation::LIST_BRANCHES).await?;
    let page = query.page(PageLimits::WHOLE_LIST);
    let request = ListBranchesRequest { repository_id: access.id, page: page.number, page_size: page.size };
    let answer =
        api.clients.git().list_branches(context.request_with_grant(&access.grant, request)).await?.into_inner();
    let emails = Emails::of(answer.branches.iter().filter_map(|branch| branch.commit.as_ref()));
    let accounts = api.accounts_by_email(&context, emails).await?;
    let branches = answer.branches.into_iter().map(|branch| Branch::new(branch, &accounts, &access.urls));
    let branches = branches.collect::<Result<Vec<_>, _>>()?;
    Ok(json::page_of_texts(branches, query.headers(page, answer.total_count, &api.links)))
}

async fn get(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
) -> Result<Response, ApiError> {
    let access = api.access(&context, &path, operation::GET_BRANCH).await?;
    let request = GetBranchRequest { repository_id: access.id, name: path.rest };
    let answer = api.clients.git().get_branch(context.request_with_grant(&access.grant, request)).await;
    let branch = require(answer.map_err(read_error)?.into_inner().branch, "branch")?;
    let accounts = api.accounts_by_email(&context, Emails::of(&branch.commit)).await?;
    Ok(json::ok(Branch::new(branch, &accounts, &access.urls)?))
}
