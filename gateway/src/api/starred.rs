//! Stars: those of users, and the users who gave one to a repository.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ferrite_proto::repo::{
    IsStarredRequest, ListStargazersRequest, ListStarredRepositoriesRequest, RepositoryName, RepositoryRef,
    StarRepositoryRequest, UnstarRepositoryRequest, repository_ref,
};

use super::named_user::NamedUser;
use super::operation;
use super::state::ApiState;
use crate::auth::Authenticated;
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::{Params, RepoPath};
use crate::http::query::Query;
use crate::http::routes::routes;

routes! { ApiState:
    "/api/v1/user/starred" => get list as operation::LIST_STARRED_REPOSITORIES;
    "/api/v1/user/starred/{owner}/{repo}" =>
        get is_starred as operation::IS_STARRED,
        put star as operation::STAR_REPOSITORY,
        delete unstar as operation::UNSTAR_REPOSITORY;
    "/api/v1/users/{username}/starred" => get list as operation::LIST_STARRED_REPOSITORIES;
    "/api/v1/repos/{owner}/{repo}/stargazers" => get stargazers as operation::LIST_STARGAZERS;
}

/// Returns the repository that a path names, whose first parts are not those of a [`RepoPath`].
fn repository(path: &Params) -> RepositoryRef {
    let name = RepositoryName { owner: path.name("owner"), name: path.name("repo") };
    RepositoryRef { by: Some(repository_ref::By::Name(name)) }
}

async fn list(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    NamedUser(username): NamedUser,
    query: Query,
) -> Result<Response, ApiError> {
    let username = username.unwrap_or_default();
    let page = query.page(PageLimits::WHOLE_LIST);
    let request = ListStarredRepositoriesRequest { username, page: page.number, page_size: page.size };
    let answer = api.clients.stars().list_starred_repositories(context.request(request)).await?.into_inner();
    let repositories = api.repositories(&context, answer.repositories)?;
    Ok(json::page(repositories, query.headers(page, answer.total_count, &api.links)))
}

async fn stargazers(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    query: Query,
) -> Result<Response, ApiError> {
    let page = query.page(PageLimits::WHOLE_LIST);
    let repository = Some(path.repository());
    let request = ListStargazersRequest { repository, page: page.number, page_size: page.size };
    let answer = api.clients.stars().list_stargazers(context.request(request)).await?.into_inner();
    Ok(json::page(api.users(&context, answer.users), query.headers(page, answer.total_count, &api.links)))
}

async fn is_starred(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
) -> Result<Response, ApiError> {
    let request = context.request(IsStarredRequest { repository: Some(repository(&path)) });
    let answer = api.clients.stars().is_starred(request).await?.into_inner();
    if answer.is_starred {
        Ok(StatusCode::NO_CONTENT.into_response())
    } else {
        Err(ApiError::not_found("repository is not starred"))
    }
}

async fn star(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
) -> Result<Response, ApiError> {
    let request = context.request(StarRepositoryRequest { repository: Some(repository(&path)) });
    api.clients.stars().star_repository(request).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn unstar(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
) -> Result<Response, ApiError> {
    let request = context.request(UnstarRepositoryRequest { repository: Some(repository(&path)) });
    api.clients.stars().unstar_repository(request).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
