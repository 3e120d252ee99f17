use ferrite_proto::repo;
use ferrite_proto::repo::repository_service_server::RepositoryService;
use ferrite_rpc::auth::AuthError;
use tonic::Response;

use super::{FakeRepoService, RpcResult, repository};

#[tonic::async_trait]
impl RepositoryService for FakeRepoService {
    async fn create_repository(
        &self,
        request: tonic::Request<repo::CreateRepositoryRequest>,
    ) -> RpcResult<repo::CreateRepositoryResponse> {
        self.record(&request)?;
        let reference = repo::RepositoryRef::by_name("bob", request.into_inner().name);
        Ok(Response::new(repo::CreateRepositoryResponse { repository: Some(repository(Some(reference))?) }))
    }

    async fn get_repository(
        &self,
        request: tonic::Request<repo::GetRepositoryRequest>,
    ) -> RpcResult<repo::GetRepositoryResponse> {
        self.record(&request)?;
        let repository = repository(request.into_inner().repository)?;
        Ok(Response::new(repo::GetRepositoryResponse { repository: Some(repository) }))
    }

    async fn get_repositories(
        &self,
        request: tonic::Request<repo::GetRepositoriesRequest>,
    ) -> RpcResult<repo::GetRepositoriesResponse> {
        self.record(&request)?;
        Ok(Response::new(repo::GetRepositoriesResponse::default()))
    }

    async fn list_repositories(
        &self,
        request: tonic::Request<repo::ListRepositoriesRequest>,
    ) -> RpcResult<repo::ListRepositoriesResponse> {
        self.record(&request)?;
        Ok(Response::new(repo::ListRepositoriesResponse::default()))
    }

    async fn search_repositories(
        &self,
        request: tonic::Request<repo::SearchRepositoriesRequest>,
    ) -> RpcResult<repo::SearchRepositoriesResponse> {
        self.record(&request)?;
        let request = request.into_inner();
        assert!(!request.query.contains('\0') && request.owner_id >= 0 && request.page >= 1 && request.page_size <= 50);
        let is_partial = request.query == "partial";
        Ok(Response::new(repo::SearchRepositoriesResponse { repositories: Vec::new(), total_count: 25, is_partial }))
    }

    async fn delete_repository(
        &self,
        request: tonic::Request<repo::DeleteRepositoryRequest>,
    ) -> RpcResult<repo::DeleteRepositoryResponse> {
        self.record(&request)?;
        Err(AuthError::PermissionRequired { needed: ferrite_proto::Permission::Owner }.into())
    }

    async fn update_repository(
        &self,
        request: tonic::Request<repo::UpdateRepositoryRequest>,
    ) -> RpcResult<repo::UpdateRepositoryResponse> {
        self.record(&request)?;
        Err(AuthError::PermissionRequired { needed: ferrite_proto::Permission::Admin }.into())
    }

    async fn fork_repository(
        &self,
        request: tonic::Request<repo::ForkRepositoryRequest>,
    ) -> RpcResult<repo::ForkRepositoryResponse> {
        self.record(&request)?;
        let repository = repository(request.into_inner().repository)?;
        Ok(Response::new(repo::ForkRepositoryResponse { repository: Some(repository) }))
    }

    async fn get_fork(&self, request: tonic::Request<repo::GetForkRequest>) -> RpcResult<repo::GetForkResponse> {
        self.record(&request)?;
        Ok(Response::new(repo::GetForkResponse { repository: Some(repository(request.into_inner().repository)?) }))
    }

    async fn list_forks(&self, request: tonic::Request<repo::ListForksRequest>) -> RpcResult<repo::ListForksResponse> {
        self.record(&request)?;
        Ok(Response::new(repo::ListForksResponse::default()))
    }

    async fn update_wiki(
        &self,
        request: tonic::Request<repo::UpdateWikiRequest>,
    ) -> RpcResult<repo::UpdateWikiResponse> {
        self.record(&request)?;
        Err(AuthError::PermissionRequired { needed: ferrite_proto::Permission::Admin }.into())
    }

    async fn update_issue_tracker(
        &self,
        request: tonic::Request<repo::UpdateIssueTrackerRequest>,
    ) -> RpcResult<repo::UpdateIssueTrackerResponse> {
        self.record(&request)?;
        Err(AuthError::PermissionRequired { needed: ferrite_proto::Permission::Admin }.into())
    }
}
