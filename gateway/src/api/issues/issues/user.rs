use ferrite_proto::issue::{IssueState, ListUserIssuesRequest};
use ferrite_proto::operation;

use crate::api::access::PermissionCheck;
use crate::api::call::Authenticated;
use crate::api::issues::{RepositoryUrls, list_error, listed_state};
use crate::dto::{Issue, require};
use crate::http::error::{ApiError, ApiResult};
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::query::Query;

/// Responds with the issues that are assigned to the caller. issue-svc asks repo-svc which of them the caller may see.
pub(super) async fn list(Authenticated(call): Authenticated, query: Query) -> ApiResult {
    let grant = call.grant(PermissionCheck::of(operation::LIST_USER_ISSUES)).await?;
    let page = query.page(PageLimits::LARGE_LIST);
    let state = listed_state(&query, IssueState::Open).map_err(|error| ApiError::invalid(vec![error]))?;
    let request = ListUserIssuesRequest { state: state.into(), page: page.number, page_size: page.size };
    let response =
        call.clients.issues().list_user_issues(call.request_with_grant(&grant, request)).await.map_err(list_error)?;
    let response = response.into_inner();
    let accounts = call.accounts_by_id(response.issues.iter().flat_map(Issue::account_ids)).await?;
    let repositories = RepositoryUrls::new(response.repositories, &call.links);
    let mut issues = Vec::with_capacity(response.issues.len());
    for issue in response.issues {
        let urls = require(repositories.of(issue.repository_id), "repositories")?;
        issues.push(Issue::new(issue, &accounts, urls)?);
    }
    Ok(json::page_of_texts(issues, query.headers(page, response.total_count, &call.links)))
}
