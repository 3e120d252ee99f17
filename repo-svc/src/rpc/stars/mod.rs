//! Stars that users give to repositories.

mod is_starred;
mod list_stargazers;
mod list_starred_repositories;
mod star_repository;
mod unstar_repository;

use ferrite_proto::repo::star_service_server::StarService;
use ferrite_proto::repo::*;

use super::dispatch::permitted_service;

permitted_service!(StarService {
    list_starred_repositories(ListStarredRepositoriesRequest) -> ListStarredRepositoriesResponse;
    list_stargazers(ListStargazersRequest) -> ListStargazersResponse;
    is_starred(IsStarredRequest) -> IsStarredResponse;
    star_repository(StarRepositoryRequest) -> StarRepositoryResponse;
    unstar_repository(UnstarRepositoryRequest) -> UnstarRepositoryResponse;
});
