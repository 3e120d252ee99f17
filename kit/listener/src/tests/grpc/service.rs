use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::MAX_MESSAGE_BYTES;
use ferrite_proto::repo::repository_service_server::{RepositoryService, RepositoryServiceServer};
use ferrite_proto::repo::*;
use ferrite_rpc::version;
use tonic::{Request, Response, Status};

#[derive(Clone, Default)]
pub(super) struct Repositories(Arc<State>);

#[derive(Default)]
pub(super) struct State {
    pub(super) calls: AtomicUsize,
    /// Number of next calls that fail with `UNAVAILABLE`.
    pub(super) failures: AtomicUsize,
    /// Set when the server has dropped a hanging call.
    pub(super) dropped: AtomicBool,
    pub(super) traceparent: Mutex<Option<String>>,
}

/// Repository ids that select what a call does.
pub(super) const FINE: i64 = 1;
pub(super) const PANIC: i64 = 2;
pub(super) const HANG: i64 = 3;
pub(super) const SLOW: i64 = 4;

pub(super) fn get(id: i64) -> Request<GetRepositoryRequest> {
    Request::new(GetRepositoryRequest { repository: Some(RepositoryRef::by_id(id)) })
}

struct OnDrop<'a>(&'a AtomicBool);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Repositories {
    pub(super) fn server(&self) -> RepositoryServiceServer<Self> {
        RepositoryServiceServer::new(self.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES)
    }

    pub(super) fn state(&self) -> &State {
        &self.0
    }

    pub(super) fn calls(&self) -> usize {
        self.0.calls.load(Ordering::SeqCst)
    }

    /// Counts a call and records its trace. Fails if failures are left.
    fn enter<T>(&self, request: &Request<T>) -> Result<(), Status> {
        self.0.calls.fetch_add(1, Ordering::SeqCst);
        let trace = request.metadata().get("traceparent").and_then(|value| value.to_str().ok());
        *self.0.traceparent.lock().unwrap() = trace.map(str::to_owned);
        let fail = |left: usize| left.checked_sub(1);
        match self.0.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fail) {
            Ok(_) => Err(Status::unavailable("not now")),
            Err(_) => Ok(()),
        }
    }
}

#[tonic::async_trait]
impl RepositoryService for Repositories {
    async fn get_repository(
        &self,
        request: Request<GetRepositoryRequest>,
    ) -> Result<Response<GetRepositoryResponse>, Status> {
        self.enter(&request)?;
        match request.into_inner().repository.and_then(|repository| repository.by) {
            Some(repository_ref::By::Id(PANIC)) => panic!("a handler panics"),
            Some(repository_ref::By::Id(HANG)) => {
                let _guard = OnDrop(&self.0.dropped);
                std::future::pending::<()>().await;
            }
            Some(repository_ref::By::Id(SLOW)) => tokio::time::sleep(Duration::from_millis(400)).await,
            _ => {}
        }
        version::tell(&GetRepositoryResponse::default());
        Ok(Response::new(GetRepositoryResponse::default()))
    }

    async fn get_repositories(
        &self,
        request: Request<GetRepositoriesRequest>,
    ) -> Result<Response<GetRepositoriesResponse>, Status> {
        self.enter(&request)?;
        Ok(Response::new(GetRepositoriesResponse::default()))
    }

    async fn list_repositories(
        &self,
        request: Request<ListRepositoriesRequest>,
    ) -> Result<Response<ListRepositoriesResponse>, Status> {
        self.enter(&request)?;
        Ok(Response::new(ListRepositoriesResponse::default()))
    }

    async fn search_repositories(
        &self,
        request: Request<SearchRepositoriesRequest>,
    ) -> Result<Response<SearchRepositoriesResponse>, Status> {
        self.enter(&request)?;
        Ok(Response::new(SearchRepositoriesResponse::default()))
    }

    async fn create_repository(
        &self,
        request: Request<CreateRepositoryRequest>,
    ) -> Result<Response<CreateRepositoryResponse>, Status> {
        self.enter(&request)?;
        Ok(Response::new(CreateRepositoryResponse::default()))
    }

    async fn delete_repository(
        &self,
        request: Request<DeleteRepositoryRequest>,
    ) -> Result<Response<DeleteRepositoryResponse>, Status> {
        self.enter(&request)?;
        std::future::pending().await
    }

    async fn update_repository(
        &self,
        request: Request<ferrite_proto::repo::UpdateRepositoryRequest>,
    ) -> Result<Response<ferrite_proto::repo::UpdateRepositoryResponse>, Status> {
        self.enter(&request)?;
        version::require(Some(&GetRepositoryResponse::default()))
            .map_err(|failed| Status::aborted(failed.to_string()))?;
        Ok(Response::new(ferrite_proto::repo::UpdateRepositoryResponse::default()))
    }

    async fn fork_repository(
        &self,
        request: Request<ForkRepositoryRequest>,
    ) -> Result<Response<ForkRepositoryResponse>, Status> {
        self.enter(&request)?;
        Ok(Response::new(ForkRepositoryResponse::default()))
    }

    async fn get_fork(&self, request: Request<GetForkRequest>) -> Result<Response<GetForkResponse>, Status> {
        self.enter(&request)?;
        Ok(Response::new(GetForkResponse::default()))
    }

    async fn list_forks(&self, request: Request<ListForksRequest>) -> Result<Response<ListForksResponse>, Status> {
        self.enter(&request)?;
        Ok(Response::new(ListForksResponse::default()))
    }

    async fn update_issue_tracker(
        &self,
        request: Request<UpdateIssueTrackerRequest>,
    ) -> Result<Response<UpdateIssueTrackerResponse>, Status> {
        self.enter(&request)?;
        Ok(Response::new(UpdateIssueTrackerResponse {}))
    }

    async fn update_wiki(&self, request: Request<UpdateWikiRequest>) -> Result<Response<UpdateWikiResponse>, Status> {
        self.enter(&request)?;
        Ok(Response::new(UpdateWikiResponse {}))
    }
}
