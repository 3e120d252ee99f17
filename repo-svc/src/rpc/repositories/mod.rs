//! Repositories: metadata, creation and deletion, and the settings of issue trackers and wikis.

mod lifecycle;
mod read;
mod settings;

use ferrite_proto::repo::repository_service_server::RepositoryService;
use ferrite_proto::repo::*;

use self::lifecycle::{create_repository, delete_repository, fork_repository};
use self::read::{get_fork, get_repositories, get_repository, list_forks, list_repositories, search_repositories};
use self::settings::{update_issue_tracker, update_repository, update_wiki};
use super::dispatch::authorized_service;

authorized_service!(RepositoryService {
    create_repository(CreateRepositoryRequest, as_administrator, owner) -> CreateRepositoryResponse;
    get_repository(GetRepositoryRequest) -> GetRepositoryResponse;
    get_repositories(GetRepositoriesRequest) -> GetRepositoriesResponse;
    list_repositories(ListRepositoriesRequest) -> ListRepositoriesResponse;
    search_repositories(SearchRepositoriesRequest) -> SearchRepositoriesResponse;
    delete_repository(DeleteRepositoryRequest) -> DeleteRepositoryResponse;
    fork_repository(ForkRepositoryRequest) -> ForkRepositoryResponse;
    get_fork(GetForkRequest) -> GetForkResponse;
    list_forks(ListForksRequest) -> ListForksResponse;
    update_repository(UpdateRepositoryRequest) -> UpdateRepositoryResponse;
    update_issue_tracker(UpdateIssueTrackerRequest) -> UpdateIssueTrackerResponse;
    update_wiki(UpdateWikiRequest) -> UpdateWikiResponse;
});
