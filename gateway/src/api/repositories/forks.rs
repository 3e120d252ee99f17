//! Forks of a repository: made and listed.

use std::time::Duration;

use ferrite_proto::operation;
use ferrite_proto::repo::{ForkRepositoryRequest, ListForksRequest};
use ferrite_rpc::grpc::with_timeout;

use crate::api::call::{Authenticated, routes};
use crate::http::body::JsonBody;
use crate::http::error::ApiResult;
use crate::http::fields::FieldReader;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::RepoPath;
use crate::http::query::Query;

/// Deadline of the call that makes a fork: more than repo-svc waits for the store.
const FORK_DEADLINE: Duration = Duration::from_secs(14 * 60);

routes! {
    "/api/v1/repos/{owner}/{repo}/forks" =>
        get list as operation::LIST_FORKS,
        post create as operation::FORK_REPOSITORY;
}

async fn create(Authenticated(call): Authenticated, path: RepoPath, body: JsonBody) -> ApiResult {
    let decode = |fields: &mut FieldReader| ForkRepositoryRequest {
        repository: None,
        organization: fields.text_or_empty("organization"),
        name: fields.text_or_empty("name"),
    };
    let (repository, decoded) = call.decode_repository_body(&path, operation::FORK_REPOSITORY, body, decode).await?;
    let request = call.request(ForkRepositoryRequest { repository: Some(repository), ..decoded });
    let request = with_timeout(request, FORK_DEADLINE);
    let response = call.clients.repositories().fork_repository(request).await?.into_inner();
    Ok(json::created(call.repository(response.repository)?))
}

async fn list(Authenticated(call): Authenticated, path: RepoPath, query: Query) -> ApiResult {
    let page = query.page(PageLimits::WHOLE_LIST);
    let request = ListForksRequest { repository: Some(path.repository()), page: page.number, page_size: page.size };
    let response = call.clients.repositories().list_forks(call.request(request)).await?.into_inner();
    let repositories = call.repositories(response.repositories)?;
    Ok(json::page(repositories, query.headers(page, response.total_count, &call.links)))
}
