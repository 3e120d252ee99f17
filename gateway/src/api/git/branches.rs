//! Branches of a repository. Not here: their protection.

use ferrite_proto::git::{GetBranchRequest, ListBranchesRequest};
use ferrite_proto::operation;

use super::response::read_error;
use crate::api::access::Emails;
use crate::api::call::{Authenticated, routes};
use crate::dto::{Branch, require};
use crate::http::error::ApiResult;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::RepoPath;
use crate::http::query::Query;

routes! {
    "/api/v1/repos/{owner}/{repo}/branches" => get list as operation::LIST_BRANCHES;
    "/api/v1/repos/{owner}/{repo}/branches/{*branch}" => get get as operation::GET_BRANCH;
}

async fn list(Authenticated(call): Authenticated, path: RepoPath, query: Query) -> ApiResult {
    let access = call.access(&path, operation::LIST_BRANCHES).await?;
    let page = query.page(PageLimits::WHOLE_LIST);
    let request = ListBranchesRequest { repository_id: access.id, page: page.number, page_size: page.size };
    let response =
        call.clients.git().list_branches(call.request_with_grant(&access.grant, request)).await?.into_inner();
    let emails = Emails::of(response.branches.iter().filter_map(|branch| branch.commit.as_ref()));
    let accounts = call.accounts_by_email(emails).await?;
    let branches = response.branches.into_iter().map(|branch| Branch::new(branch, &accounts, &access.urls));
    let branches = branches.collect::<Result<Vec<_>, _>>()?;
    Ok(json::page_of_texts(branches, query.headers(page, response.total_count, &call.links)))
}

async fn get(Authenticated(call): Authenticated, path: RepoPath) -> ApiResult {
    let access = call.access(&path, operation::GET_BRANCH).await?;
    let request = GetBranchRequest { repository_id: access.id, name: path.rest };
    let response = call.clients.git().get_branch(call.request_with_grant(&access.grant, request)).await;
    let branch = require(response.map_err(read_error)?.into_inner().branch, "branch")?;
    let accounts = call.accounts_by_email(Emails::of(&branch.commit)).await?;
    Ok(json::ok(Branch::new(branch, &accounts, &access.urls)?))
}
