//! Forks of a repository: made and listed.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use ferrite_proto::repo::{ForkRepositoryRequest, ListForksRequest};

use super::access::PermissionCheck;
use super::operation;
use super::state::ApiState;
use crate::auth::{Authenticated, with_timeout};
use crate::http::body::JsonBody;
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::RepoPath;
use crate::http::query::Query;
use crate::http::routes::routes;

/// Deadline of the call that makes a fork: more than repo-svc waits for the store.
const FORK_DEADLINE: Duration = Duration::from_secs(14 * 60);

routes! { ApiState:
    "/api/v1/repos/{owner}/{repo}/forks" =>
        get list as operation::LIST_FORKS,
        post create as operation::FORK_REPOSITORY;
}

async fn create(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let check = PermissionCheck::of(operation::FORK_REPOSITORY).on_repository(path.repository());
    let decode = api.decode_body(&context, check, body, |fields| ForkRepositoryRequest {
        repository: Some(path.repository()),
        organization: fields.text_or_empty("organization"),
        name: fields.text_or_empty("name"),
    });
    let request = with_timeout(context.request(decode.await?), FORK_DEADLINE);
    let answer = api.clients.repositories().fork_repository(request).await?.into_inner();
    Ok(json::created(api.repository(&context, answer.repository)?))
}

async fn list(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    query: Query,
) -> Result<Response, ApiError> {
    let page = query.page(PageLimits::WHOLE_LIST);
    let request = ListForksRequest { repository: Some(path.repository()), page: page.number, page_size: page.size };
    let answer = api.clients.repositories().list_forks(context.request(request)).await?.into_inner();
    let repositories = api.repositories(&context, answer.repositories)?;
    Ok(json::page(repositories, query.headers(page, answer.total_count, &api.links)))
}
