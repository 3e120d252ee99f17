//! Watches of users on repositories.

mod get_watch;
mod list_watched_repositories;
mod list_watchers;
mod unwatch_repository;
mod watch_repository;

use ferrite_kit::timestamp;
use ferrite_proto::repo::watch_service_server::WatchService;
use ferrite_proto::repo::*;

use super::dispatch::permitted_service;
use crate::store::Repository;

permitted_service!(WatchService {
    list_watched_repositories(ListWatchedRepositoriesRequest) -> ListWatchedRepositoriesResponse;
    list_watchers(ListWatchersRequest) -> ListWatchersResponse;
    get_watch(GetWatchRequest) -> GetWatchResponse;
    watch_repository(WatchRepositoryRequest) -> WatchRepositoryResponse;
    unwatch_repository(UnwatchRepositoryRequest) -> UnwatchRepositoryResponse;
});

/// Encodes the watch on a repository that began at a time (microseconds since 1970).
fn watch(repository: Repository, created_us: i64) -> Watch {
    Watch { create_time: Some(timestamp(created_us)), owner: repository.owner_name, name: repository.name }
}
