//! Metadata of repositories, their creation and deletion, and the settings of their issue trackers and wikis.

mod create_repository;
mod creation;
mod delete_repository;
mod fork_repository;
mod get_repository;
mod list_forks;
mod list_repositories;
mod search_repositories;
mod update_issue_tracker;
mod update_repository;
mod update_wiki;

use ferrite_proto::repo::repository_service_server::RepositoryService;
use ferrite_proto::repo::*;

use super::dispatch::permitted_service;

permitted_service!(RepositoryService {
    create_repository(CreateRepositoryRequest, as_administrator, owner) -> CreateRepositoryResponse;
    get_repository(GetRepositoryRequest) -> GetRepositoryResponse;
    list_repositories(ListRepositoriesRequest) -> ListRepositoriesResponse;
    search_repositories(SearchRepositoriesRequest) -> SearchRepositoriesResponse;
    delete_repository(DeleteRepositoryRequest) -> DeleteRepositoryResponse;
    fork_repository(ForkRepositoryRequest) -> ForkRepositoryResponse;
    list_forks(ListForksRequest) -> ListForksResponse;
    update_repository(UpdateRepositoryRequest) -> UpdateRepositoryResponse;
    update_issue_tracker(UpdateIssueTrackerRequest) -> UpdateIssueTrackerResponse;
    update_wiki(UpdateWikiRequest) -> UpdateWikiResponse;
});
