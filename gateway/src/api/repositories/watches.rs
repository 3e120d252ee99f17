//! Watches of users on repositories, which the API calls subscriptions.

use ferrite_proto::operation;
use ferrite_proto::repo::{
    self, GetWatchRequest, ListWatchedRepositoriesRequest, ListWatchersRequest, UnwatchRepositoryRequest,
    WatchRepositoryRequest,
};

use crate::api::call::{ApiCall, Authenticated, routes};
use crate::dto::{Watch, require};
use crate::http::error::ApiResult;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::{Params, RepoPath};
use crate::http::query::Query;

routes! {
    "/api/v1/user/subscriptions" => get list as operation::LIST_WATCHED_REPOSITORIES;
    "/api/v1/users/{username}/subscriptions" => get list as operation::LIST_WATCHED_REPOSITORIES;
    "/api/v1/repos/{owner}/{repo}/subscribers" => get subscribers as operation::LIST_WATCHERS;
    "/api/v1/repos/{owner}/{repo}/subscription" =>
        get get as operation::GET_WATCH,
        put watch as operation::WATCH_REPOSITORY,
        delete unwatch as operation::UNWATCH_REPOSITORY;
}

async fn list(Authenticated(call): Authenticated, path: Params, query: Query) -> ApiResult {
    let username = path.optional_name("username").unwrap_or_default();
    let page = query.page(PageLimits::WHOLE_LIST);
    let request = ListWatchedRepositoriesRequest { username, page: page.number, page_size: page.size };
    let response = call.clients.watches().list_watched_repositories(call.request(request)).await?.into_inner();
    let repositories = call.repositories(response.repositories)?;
    Ok(json::page(repositories, query.headers(page, response.total_count, &call.links)))
}

async fn subscribers(Authenticated(call): Authenticated, path: RepoPath, query: Query) -> ApiResult {
    let page = query.page(PageLimits::WHOLE_LIST);
    let repository = Some(path.repository());
    let request = ListWatchersRequest { repository, page: page.number, page_size: page.size };
    let response = call.clients.watches().list_watchers(call.request(request)).await?.into_inner();
    Ok(json::page(call.users(response.users), query.headers(page, response.total_count, &call.links)))
}

async fn get(Authenticated(call): Authenticated, path: RepoPath) -> ApiResult {
    let request = call.request(GetWatchRequest { repository: Some(path.repository()) });
    let response = call.clients.watches().get_watch(request).await?.into_inner();
    shown(&call, response.watch)
}

async fn watch(Authenticated(call): Authenticated, path: RepoPath) -> ApiResult {
    let request = call.request(WatchRepositoryRequest { repository: Some(path.repository()) });
    let response = call.clients.watches().watch_repository(request).await?.into_inner();
    shown(&call, response.watch)
}

async fn unwatch(Authenticated(call): Authenticated, path: RepoPath) -> ApiResult {
    let request = call.request(UnwatchRepositoryRequest { repository: Some(path.repository()) });
    call.clients.watches().unwatch_repository(request).await?;
    Ok(json::no_content())
}

fn shown(call: &ApiCall, watch: Option<repo::Watch>) -> ApiResult {
    Ok(json::ok(Watch::new(&require(watch, "watch")?, &call.links)?))
}
