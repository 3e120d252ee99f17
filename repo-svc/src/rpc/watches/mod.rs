//! Watches of users on repositories.

mod encode_watch;
mod get_watch;
mod list_watched_repositories;
mod list_watchers;
mod unwatch_repository;
mod watch_repository;

use ferrite_proto::repo::watch_service_server::WatchService;
use ferrite_proto::repo::{
    GetWatchRequest, GetWatchResponse, ListWatchedRepositoriesRequest, ListWatchedRepositoriesResponse,
    ListWatchersRequest, ListWatchersResponse, UnwatchRepositoryRequest, UnwatchRepositoryResponse,
    WatchRepositoryRequest, WatchRepositoryResponse,
};

use super::dispatch::service;

service!(WatchService {
    list_watched_repositories(ListWatchedRepositoriesRequest) -> ListWatchedRepositoriesResponse;
    list_watchers(ListWatchersRequest) -> ListWatchersResponse;
    get_watch(GetWatchRequest) -> GetWatchResponse;
    watch_repository(WatchRepositoryRequest) -> WatchRepositoryResponse;
    unwatch_repository(UnwatchRepositoryRequest) -> UnwatchRepositoryResponse;
});
