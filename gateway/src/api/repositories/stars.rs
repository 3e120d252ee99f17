use ferrite_api_types::{Repository, User};
use ferrite_proto::operation;
use ferrite_proto::repo::{
    IsStarredRequest, ListStargazersRequest, ListStarredRepositoriesRequest, RepositoryRef, StarRepositoryRequest,
    UnstarRepositoryRequest,
};

use crate::api::call::{Authenticated, MaybeAuthenticated, operations};
use crate::http::error::{ApiError, ApiResult};
use crate::http::page::WholeList;
use crate::http::path::{Params, RepoPath};
use crate::http::response::{List, NoContent};
use crate::http::routes::variant;

operations! {
    "/api/v1/user/starred" => get list as operation::LIST_STARRED_REPOSITORIES;
    "/api/v1/user/starred/{owner}/{repo}" =>
        get is_starred as operation::IS_STARRED,
        put star as operation::STAR_REPOSITORY,
        delete unstar as operation::UNSTAR_REPOSITORY;
    "/api/v1/users/{username}/starred" => get list as variant(operation::LIST_STARRED_REPOSITORIES, "OfUser");
    "/api/v1/repos/{owner}/{repo}/stargazers" => get stargazers as operation::LIST_STARGAZERS;
}

/// Returns the repository of a path that is not a [`RepoPath`].
fn repository(path: &Params) -> RepositoryRef {
    RepositoryRef::by_name(path.name("owner"), path.name("repo"))
}

async fn list(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: Params,
    query: WholeList,
) -> ApiResult<List<Repository>> {
    let username = path.optional_name("username").unwrap_or_default();
    let request = ListStarredRepositoriesRequest { username, page: query.page.number, page_size: query.page.size };
    let response = call.clients.stars().list_starred_repositories(call.request(request)).await?.into_inner();
    let repositories = call.repositories(response.repositories)?;
    Ok(query.list(repositories, response.total_count, &call.links))
}

async fn stargazers(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    query: WholeList,
) -> ApiResult<List<User>> {
    let repository = Some(path.repository());
    let request = ListStargazersRequest { repository, page: query.page.number, page_size: query.page.size };
    let response = call.clients.stars().list_stargazers(call.request(request)).await?.into_inner();
    Ok(query.list(call.users(response.users), response.total_count, &call.links))
}

async fn is_starred(Authenticated(call): Authenticated, path: Params) -> ApiResult<NoContent> {
    let request = call.request(IsStarredRequest { repository: Some(repository(&path)) });
    let response = call.clients.stars().is_starred(request).await?.into_inner();
    if response.is_starred { Ok(NoContent) } else { Err(ApiError::not_found("repository is not starred")) }
}

async fn star(Authenticated(call): Authenticated, path: Params) -> ApiResult<NoContent> {
    let request = call.request(StarRepositoryRequest { repository: Some(repository(&path)) });
    call.clients.stars().star_repository(request).await?;
    Ok(NoContent)
}

async fn unstar(Authenticated(call): Authenticated, path: Params) -> ApiResult<NoContent> {
    let request = call.request(UnstarRepositoryRequest { repository: Some(repository(&path)) });
    call.clients.stars().unstar_repository(request).await?;
    Ok(NoContent)
}
