//! Watches of users on repositories, which the API calls subscriptions.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ferrite_proto::repo::{
    self, GetWatchRequest, ListWatchedRepositoriesRequest, ListWatchersRequest, UnwatchRepositoryRequest,
    WatchRepositoryRequest,
};

use super::named_user::NamedUser;
use super::operation;
use super::state::ApiState;
use crate::auth::Authenticated;
use crate::dto::{Watch, require};
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::RepoPath;
use crate::http::query::Query;
use crate::http::routes::routes;

routes! { ApiState:
    "/api/v1/user/subscriptions" => get list as operation::LIST_WATCHED_REPOSITORIES;
    "/api/v1/users/{username}/subscriptions" => get list as operation::LIST_WATCHED_REPOSITORIES;
    "/api/v1/repos/{owner}/{repo}/subscribers" => get subscribers as operation::LIST_WATCHERS;
    "/api/v1/repos/{owner}/{repo}/subscription" =>
        get get as operation::GET_WATCH,
        put watch as operation::WATCH_REPOSITORY,
        delete unwatch as operation::UNWATCH_REPOSITORY;
}

async fn list(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    NamedUser(username): NamedUser,
    query: Query,
) -> Result<Response, ApiError> {
    let username = username.unwrap_or_default();
    let page = query.page(PageLimits::WHOLE_LIST);
    let request = ListWatchedRepositoriesRequest { username, page: page.number, page_size: page.size };
    let answer = api.clients.watches().list_watched_repositories(context.request(request)).await?.into_inner();
    let repositories = api.repositories(&context, answer.repositories)?;
    Ok(json::page(repositories, query.headers(page, answer.total_count, &api.links)))
}

async fn subscribers(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    query: Query,
) -> Result<Response, ApiError> {
    let page = query.page(PageLimits::WHOLE_LIST);
    let repository = Some(path.repository());
    let request = ListWatchersRequest { repository, page: page.number, page_size: page.size };
    let answer = api.clients.watches().list_watchers(context.request(request)).await?.into_inner();
    Ok(json::page(api.users(&context, answer.users), query.headers(page, answer.total_count, &api.links)))
}

async fn get(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
) -> Result<Response, ApiError> {
    let request = context.request(GetWatchRequest { repository: Some(path.repository()) });
    let answer = api.clients.watches().get_watch(request).await?.into_inner();
    shown(&api, answer.watch)
}

async fn watch(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
) -> Result<Response, ApiError> {
    let request = context.request(WatchRepositoryRequest { repository: Some(path.repository()) });
    let answer = api.clients.watches().watch_repository(request).await?.into_inner();
    shown(&api, answer.watch)
}

async fn unwatch(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
) -> Result<Response, ApiError> {
    let request = context.request(UnwatchRepositoryRequest { repository: Some(path.repository()) });
    api.clients.watches().unwatch_repository(request).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn shown(api: &ApiState, watch: Option<repo::Watch>) -> Result<Response, ApiError> {
    Ok(json::ok(Watch::new(&require(watch, "watch")?, &api.links)?))
}
