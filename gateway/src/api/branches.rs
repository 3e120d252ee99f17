use axum::extract::State;
use axum::response::Response;
use ferrite_proto::git::{GetBranchRequest, ListBranchesRequest};
use ferrite_proto::operation;

use super::access::Emails;
use crate::auth::Signed;
use crate::dto::{Branch, present};
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::page::{Query, WHOLE};
use crate::http::path::RepoPath;
use crate::http::routes::routes;
use crate::state::Gateway;

routes! { Gateway:
    "/api/v1/repos/{owner}/{repo}/branches" => get list as operation::LIST_BRANCHES;
    "/api/v1/repos/{owner}/{repo}/branches/{*branch}" => get get as operation::GET_BRANCH;
}

async fn list(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: RepoPath,
    query: Query,
) -> Result<Response, ApiError> {
    let access = gateway.access(&call, &path, operation::LIST_BRANCHES).await?;
    let page = query.page(WHOLE);
    let request = ListBranchesRequest { repository_id: access.id, page: page.number, page_size: page.size };
    let answer = gateway.clients.git().list_branches(call.granted(&access.grant, request)).await?.into_inner();
    let emails = Emails::of(answer.branches.iter().filter_map(|branch| branch.commit.as_ref()));
    let accounts = gateway.accounts_by_email(&call, emails).await?;
    let branches = answer.branches.into_iter().map(|branch| Branch::new(branch, &accounts, &access.urls));
    let branches = branches.collect::<Result<Vec<_>, _>>()?;
    Ok(json::page(branches, query.headers(page, answer.total_count, &gateway.links)))
}

async fn get(State(gateway): State<Gateway>, Signed(call): Signed, path: RepoPath) -> Result<Response, ApiError> {
    let access = gateway.access(&call, &path, operation::GET_BRANCH).await?;
    let request = GetBranchRequest { repository_id: access.id, name: path.rest };
    let answer = gateway.clients.git().get_branch(call.granted(&access.grant, request)).await?.into_inner();
    let branch = present(answer.branch, "branch")?;
    let accounts = gateway.accounts_by_email(&call, Emails::of(&branch.commit)).await?;
    Ok(json::ok(Branch::new(branch, &accounts, &access.urls)?))
}
