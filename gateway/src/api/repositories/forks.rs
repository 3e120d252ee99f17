use std::time::Duration;

use ferrite_api_types::Repository;
use ferrite_proto::operation;
use ferrite_proto::repo::{ForkRepositoryRequest, ListForksRequest};
use ferrite_rpc::grpc::with_timeout;

use crate::api::call::{Authenticated, MaybeAuthenticated, operations};
use crate::http::error::ApiResult;
use crate::http::page::WholeList;
use crate::http::path::RepoPath;
use crate::http::request::{OrDefault, RequestBody, Text, fields};
use crate::http::response::{Created, List};

/// Deadline for creating a fork: longer than repo-svc waits for the store.
const FORK_DEADLINE: Duration = Duration::from_secs(14 * 60);

operations! {
    "/api/v1/repos/{owner}/{repo}/forks" =>
        get list as operation::LIST_FORKS,
        post create as operation::FORK_REPOSITORY;
}

fields! {
    /// A new fork.
    struct NewFork {
        organization: OrDefault<Text> = "acme",
        name: OrDefault<Text<100>> = "demo",
    }
}

async fn create(
    Authenticated(call): Authenticated,
    path: RepoPath,
    body: RequestBody<NewFork>,
) -> ApiResult<Created<Repository>> {
    let (repository, NewFork { organization, name }, _permit) =
        call.repository_body(&path, operation::FORK_REPOSITORY, body).await?;
    let request = call.request(ForkRepositoryRequest { repository: Some(repository), organization, name });
    let request = with_timeout(request, FORK_DEADLINE);
    let response = call.clients.repositories().fork_repository(request).await?.into_inner();
    call.created_repository(response.repository)
}

async fn list(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    query: WholeList,
) -> ApiResult<List<Repository>> {
    let repository = Some(path.repository());
    let request = ListForksRequest { repository, page: query.page.number, page_size: query.page.size };
    let response = call.clients.repositories().list_forks(call.request(request)).await?.into_inner();
    let repositories = call.repositories(response.repositories)?;
    Ok(query.list(repositories, response.total_count, &call.links))
}
