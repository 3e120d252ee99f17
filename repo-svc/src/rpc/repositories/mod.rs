//! Metadata of repositories, and their creation and deletion.

mod create_repository;
mod delete_repository;
mod get_repository;
mod list_repositories;
mod search_repositories;

use ferrite_proto::repo::repository_service_server::RepositoryService;
use ferrite_proto::repo::{
    CreateRepositoryRequest, CreateRepositoryResponse, DeleteRepositoryRequest, DeleteRepositoryResponse,
    GetRepositoryRequest, GetRepositoryResponse, ListRepositoriesRequest, ListRepositoriesResponse,
    SearchRepositoriesRequest, SearchRepositoriesResponse,
};

use super::dispatch::service;

service!(RepositoryService {
    create_repository(CreateRepositoryRequest, capacity) -> CreateRepositoryResponse;
    get_repository(GetRepositoryRequest) -> GetRepositoryResponse;
    list_repositories(ListRepositoriesRequest) -> ListRepositoriesResponse;
    search_repositories(SearchRepositoriesRequest) -> SearchRepositoriesResponse;
    delete_repository(DeleteRepositoryRequest) -> DeleteRepositoryResponse;
});
