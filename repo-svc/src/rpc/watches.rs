use ferrite_core::timestamp;
use ferrite_proto::repo::watch_service_server::WatchService;
use ferrite_proto::repo::*;
use ferrite_rpc::version;
use tonic::Request;

use super::authorized::Authorized;
use super::dispatch::authorized_service;
use super::{encode, lookup};
use crate::error::RepoError;
use crate::state::AppState;
use crate::store::{Relation, Repository};

authorized_service!(WatchService {
    list_watched_repositories(ListWatchedRepositoriesRequest) -> ListWatchedRepositoriesResponse;
    list_watchers(ListWatchersRequest) -> ListWatchersResponse;
    get_watch(GetWatchRequest) -> GetWatchResponse;
    watch_repository(WatchRepositoryRequest) -> WatchRepositoryResponse;
    unwatch_repository(UnwatchRepositoryRequest) -> UnwatchRepositoryResponse;
});

async fn list_watched_repositories(
    state: &AppState,
    authorized: Authorized,
    request: Request<ListWatchedRepositoriesRequest>,
) -> Result<ListWatchedRepositoriesResponse, RepoError> {
    let request = request.into_inner();
    let user = lookup::user_or_caller(state, &authorized, &request.username).await?;
    let page = lookup::page(request.page, request.page_size);
    let (rows, total_count) = state.repositories.list_related(Relation::Watch, user, authorized.viewer(), page).await?;
    let repositories = encode::repositories(&state.repositories, rows, authorized.viewer()).await?;
    Ok(ListWatchedRepositoriesResponse { repositories, total_count })
}

async fn list_watchers(
    state: &AppState,
    authorized: Authorized,
    request: Request<ListWatchersRequest>,
) -> Result<ListWatchersResponse, RepoError> {
    let request = request.into_inner();
    let repository = authorized.repository(&state.repositories, request.repository).await?;
    let page = lookup::page(request.page, request.page_size);
    let rows = state.relations.users(Relation::Watch, repository.id(), page).await?;
    let users = encode::users(rows, authorized.viewer());
    Ok(ListWatchersResponse { users, total_count: repository.watcher_count })
}

async fn get_watch(
    state: &AppState,
    authorized: Authorized,
    request: Request<GetWatchRequest>,
) -> Result<GetWatchResponse, RepoError> {
    let by = request.into_inner().repository;
    let repository = authorized.visible_repository(&state.repositories, by).await?;
    let began_us = state.relations.find(Relation::Watch, authorized.user()?, repository.id()).await?;
    let began_us = began_us.ok_or(RepoError::WatchNotFound)?;
    version::tell(&timestamp(began_us));
    Ok(GetWatchResponse { watch: Some(watch(repository, began_us)) })
}

async fn watch_repository(
    state: &AppState,
    authorized: Authorized,
    request: Request<WatchRepositoryRequest>,
) -> Result<WatchRepositoryResponse, RepoError> {
    let by = request.into_inner().repository;
    let repository = authorized.visible_repository(&state.repositories, by).await?;
    let now = state.clock.now_us();
    let began_us = state.relations.add(Relation::Watch, authorized.user()?, repository.id(), now).await?;
    Ok(WatchRepositoryResponse { watch: Some(watch(repository, began_us)) })
}

async fn unwatch_repository(
    state: &AppState,
    authorized: Authorized,
    request: Request<UnwatchRepositoryRequest>,
) -> Result<UnwatchRepositoryResponse, RepoError> {
    let by = request.into_inner().repository;
    let repository = authorized.visible_repository(&state.repositories, by).await?;
    state.relations.remove(Relation::Watch, authorized.user()?, repository.id()).await?;
    Ok(UnwatchRepositoryResponse {})
}

/// `created_us` is in microseconds since 1970.
fn watch(repository: Repository, created_us: i64) -> Watch {
    Watch { create_time: Some(timestamp(created_us)), owner: repository.owner_name, name: repository.name }
}
