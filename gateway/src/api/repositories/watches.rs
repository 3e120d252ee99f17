//! Watches of repositories, which the API calls subscriptions.

use ferrite_api_types::convert::{MissingField, require};
use ferrite_api_types::links::Links;
use ferrite_api_types::schema::{Schema, Schemas, Shape};
use ferrite_api_types::{Repository, Time, User, shape};
use ferrite_proto::operation;
use ferrite_proto::repo::{
    self, GetWatchRequest, ListWatchedRepositoriesRequest, ListWatchersRequest, UnwatchRepositoryRequest,
    WatchRepositoryRequest,
};
use serde::Serialize;
use serde_json::json;

use crate::api::call::{ApiCall, Authenticated, MaybeAuthenticated, operations};
use crate::http::error::ApiResult;
use crate::http::page::WholeList;
use crate::http::path::{Params, RepoPath};
use crate::http::response::{Json, List, NoContent};
use crate::http::routes::variant;

operations! {
    "/api/v1/user/subscriptions" => get list as operation::LIST_WATCHED_REPOSITORIES;
    "/api/v1/users/{username}/subscriptions" =>
        get list as variant(operation::LIST_WATCHED_REPOSITORIES, "OfUser");
    "/api/v1/repos/{owner}/{repo}/subscribers" => get subscribers as operation::LIST_WATCHERS;
    "/api/v1/repos/{owner}/{repo}/subscription" =>
        get get as operation::GET_WATCH,
        put watch as operation::WATCH_REPOSITORY,
        delete unwatch as operation::UNWATCH_REPOSITORY;
}

shape! {
    /// The caller's watch of a repository, in Gitea's format.
    #[derive(Clone, Debug, Serialize)]
    struct Watch {
        /// Always true.
        subscribed: bool,
        /// Always false.
        ignored: bool,
        /// Always null.
        reason: Null,
        created_at: Time,
        url: String,
        repository_url: String,
    }
}

impl Watch {
    fn new(watch: &repo::Watch, links: &Links) -> Result<Self, MissingField> {
        let repository = links.repository(&watch.owner, &watch.name);
        Ok(Self {
            subscribed: true,
            ignored: false,
            reason: Null,
            created_at: Time::new(watch.create_time, "create_time")?,
            url: repository.subscription(),
            repository_url: repository.api(),
        })
    }
}

#[derive(Clone, Debug, Serialize)]
struct Null;

impl Shape for Null {
    fn schema(_: &mut Schemas) -> Schema {
        json!({"type": "null"})
    }
}

async fn list(Authenticated(call): Authenticated, path: Params, query: WholeList) -> ApiResult<List<Repository>> {
    let username = path.optional_name("username").unwrap_or_default();
    let request = ListWatchedRepositoriesRequest { username, page: query.page.number, page_size: query.page.size };
    let response = call.clients.watches().list_watched_repositories(call.request(request)).await?.into_inner();
    let repositories = call.repositories(response.repositories)?;
    Ok(query.list(repositories, response.total_count, &call.links))
}

async fn subscribers(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    query: WholeList,
) -> ApiResult<List<User>> {
    let repository = Some(path.repository());
    let request = ListWatchersRequest { repository, page: query.page.number, page_size: query.page.size };
    let response = call.clients.watches().list_watchers(call.request(request)).await?.into_inner();
    Ok(query.list(call.users(response.users), response.total_count, &call.links))
}

async fn get(Authenticated(call): Authenticated, path: RepoPath) -> ApiResult<Json<Watch>> {
    let request = call.request(GetWatchRequest { repository: Some(path.repository()) });
    let response = call.clients.watches().get_watch(request).await?.into_inner();
    shown(&call, response.watch)
}

async fn watch(Authenticated(call): Authenticated, path: RepoPath) -> ApiResult<Json<Watch>> {
    let request = call.request(WatchRepositoryRequest { repository: Some(path.repository()) });
    let response = call.clients.watches().watch_repository(request).await?.into_inner();
    shown(&call, response.watch)
}

async fn unwatch(Authenticated(call): Authenticated, path: RepoPath) -> ApiResult<NoContent> {
    let request = call.request(UnwatchRepositoryRequest { repository: Some(path.repository()) });
    call.clients.watches().unwatch_repository(request).await?;
    Ok(NoContent)
}

fn shown(call: &ApiCall, watch: Option<repo::Watch>) -> ApiResult<Json<Watch>> {
    Ok(Json(Watch::new(&require(watch, "watch")?, &call.links)?))
}
