//! Metadata of repositories, their creation and deletion, and the settings of their issue trackers.

mod create_repository;
mod delete_repository;
mod get_repository;
mod list_repositories;
mod search_repositories;
mod update_issue_tracker;

use ferrite_proto::repo::repository_service_server::RepositoryService;
use ferrite_proto::repo::{
    CreateRepositoryRequest, CreateRepositoryResponse, DeleteRepositoryRequest, DeleteRepositoryResponse,
    GetRepositoryRequest, GetRepositoryResponse, ListRepositoriesRequest, ListRepositoriesResponse,
    SearchRepositoriesRequest, SearchRepositoriesResponse, UpdateIssueTrackerRequest, UpdateIssueTrackerResponse,
};

use super::dispatch::service;

service!(RepositoryService {
    create_repository(CreateRepositoryRequest, capacity) -> CreateRepositoryResponse;
    get_repository(GetRepositoryRequest) -> GetRepositoryResponse;
    list_repositories(ListRepositoriesRequest) -> ListRepositoriesResponse;
    search_repositories(SearchRepositoriesRequest) -> SearchRepositoriesResponse;
    delete_repository(DeleteRepositoryRequest) -> DeleteRepositoryResponse;
    update_issue_tracker(UpdateIssueTrackerRequest) -> UpdateIssueTrackerResponse;
});
