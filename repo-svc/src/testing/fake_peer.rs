//! Fakes of git-svc and of the event subscribers.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferrite_proto::events::event_sink_server::{EventSink, EventSinkServer};
use ferrite_proto::events::{DeliverRequest, DeliverResponse, Event};
use ferrite_proto::git::migration_service_server::{MigrationService, MigrationServiceServer};
use ferrite_proto::git::release_storage_service_server::{ReleaseStorageService, ReleaseStorageServiceServer};
use ferrite_proto::git::storage_service_server::StorageServiceServer;
use ferrite_proto::{git, metadata};
use ferrite_rpc::testing::{Fake, FakeStorageService};
use tonic::service::Routes;
use tonic::{Request, Response, Status};

/// How the fake git-svc behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreMode {
    Works,
    /// Rejects the template, as git-svc does.
    Refuses,
    /// Creates the repository, then fails.
    FailsAfterCreate,
    /// Blocks new repositories, tags and moves of HEAD until the mode changes.
    Waits,
    /// Checks branches, but fails to move HEAD.
    KeepsHead,
    /// Fails every request.
    Down,
}

#[derive(Clone, Debug)]
pub(super) struct FakePeer(pub(super) Arc<FakePeerState>);

#[derive(Debug)]
pub(super) struct FakePeerState {
    pub(super) mode: Mutex<StoreMode>,
    pub(super) made: Mutex<HashSet<i64>>,
    /// Calls that change something, each with its store.
    pub(super) asked_stores: Mutex<Vec<(&'static str, String)>>,
    pub(super) create_requests: Mutex<Vec<git::CreateRepositoryRequest>>,
    pub(super) import_requests: Mutex<Vec<git::StartMigrationRequest>>,
    pub(super) tags: Mutex<Vec<git::CreateTagRequest>>,
    pub(super) deleted_files: Mutex<Vec<String>>,
    pub(super) events: Mutex<Vec<Event>>,
}

impl FakePeer {
    pub(super) fn new() -> Self {
        Self(Arc::new(FakePeerState {
            mode: Mutex::new(StoreMode::Works),
            made: Mutex::default(),
            asked_stores: Mutex::default(),
            create_requests: Mutex::default(),
            import_requests: Mutex::default(),
            tags: Mutex::default(),
            deleted_files: Mutex::default(),
            events: Mutex::default(),
        }))
    }

    pub(super) fn routes(&self) -> Routes {
        let mut routes = Routes::builder();
        routes.add_service(StorageServiceServer::new(Fake(self.clone())));
        routes.add_service(ReleaseStorageServiceServer::new(self.clone()));
        routes.add_service(EventSinkServer::new(self.clone()));
        routes.add_service(MigrationServiceServer::new(self.clone()));
        routes.routes()
    }

    fn note<T>(&self, call: &'static str, request: &Request<T>) {
        self.0.asked_stores.lock().unwrap().push((call, store_of(request)));
    }

    async fn wait(&self) {
        while *self.0.mode.lock().unwrap() == StoreMode::Waits {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn store_of<T>(request: &Request<T>) -> String {
    request.metadata().get(metadata::STORE).map(|name| name.to_str().unwrap().to_owned()).unwrap_or_default()
}

#[tonic::async_trait]
impl FakeStorageService for FakePeer {
    async fn create_repository(
        &self,
        request: Request<git::CreateRepositoryRequest>,
    ) -> Result<Response<git::CreateRepositoryResponse>, Status> {
        self.note("create", &request);
        let request = request.into_inner();
        let (id, is_empty) = (request.repository_id, request.first_commit.is_none());
        self.0.create_requests.lock().unwrap().push(request);
        self.wait().await;
        let mode = *self.0.mode.lock().unwrap();
        match mode {
            StoreMode::Down => return Err(Status::unavailable("down")),
            StoreMode::Refuses => {
                return Err(crate::error::RepoError::field("license", "unknown", "no such template").into());
            }
            StoreMode::Works | StoreMode::FailsAfterCreate | StoreMode::Waits | StoreMode::KeepsHead => {
                self.0.made.lock().unwrap().insert(id)
            }
        };
        if mode == StoreMode::FailsAfterCreate {
            return Err(Status::internal("internal error"));
        }
        Ok(Response::new(git::CreateRepositoryResponse { size_bytes: 42, is_empty }))
    }

    async fn delete_repository(
        &self,
        request: Request<git::DeleteRepositoryRequest>,
    ) -> Result<Response<git::DeleteRepositoryResponse>, Status> {
        if *self.0.mode.lock().unwrap() == StoreMode::Down {
            return Err(Status::unavailable("down"));
        }
        self.note("delete", &request);
        self.0.made.lock().unwrap().remove(&request.get_ref().repository_id);
        Ok(Response::new(git::DeleteRepositoryResponse {}))
    }

    /// Knows the branch `dev` besides the default branch.
    async fn set_default_branch(
        &self,
        request: Request<git::SetDefaultBranchRequest>,
    ) -> Result<Response<git::SetDefaultBranchResponse>, Status> {
        if *self.0.mode.lock().unwrap() == StoreMode::Down {
            return Err(Status::unavailable("down"));
        }
        if !request.get_ref().check_only {
            self.note("set default branch", &request);
            self.wait().await;
            if *self.0.mode.lock().unwrap() == StoreMode::KeepsHead {
                return Err(Status::unavailable("down"));
            }
        }
        match request.get_ref().default_branch.as_str() {
            "main" => Ok(Response::new(git::SetDefaultBranchResponse::default())),
            "dev" => Ok(Response::new(git::SetDefaultBranchResponse { number: 9, size_bytes: 4_711, is_empty: false })),
            _ => Err(crate::error::RepoError::field("default_branch", "unknown", "branch does not exist").into()),
        }
    }

    /// Answers for every store, with a terabyte free, except `elsewhere`, whose address belongs to
    /// another store.
    async fn get_store_status(
        &self,
        request: Request<git::GetStoreStatusRequest>,
    ) -> Result<Response<git::GetStoreStatusResponse>, Status> {
        if *self.0.mode.lock().unwrap() == StoreMode::Down {
            return Err(Status::unavailable("down"));
        }
        let asked = store_of(&request);
        let name = if asked == "elsewhere" { "default".to_owned() } else { asked };
        let (free_bytes, total_bytes) = (1 << 40, 1 << 42);
        let repository_count = 3;
        Ok(Response::new(git::GetStoreStatusResponse {
            name,
            free_bytes,
            total_bytes,
            repository_count,
            is_writable: true,
        }))
    }
}

#[tonic::async_trait]
impl MigrationService for FakePeer {
    async fn start_migration(
        &self,
        request: Request<git::StartMigrationRequest>,
    ) -> Result<Response<git::StartMigrationResponse>, Status> {
        let mode = *self.0.mode.lock().unwrap();
        match mode {
            StoreMode::Down => return Err(Status::unavailable("down")),
            StoreMode::Refuses => {
                return Err(
                    crate::error::RepoError::field("url", "invalid", "has a scheme that is not permitted").into()
                );
            }
            StoreMode::Works | StoreMode::FailsAfterCreate | StoreMode::Waits | StoreMode::KeepsHead => {
                self.0.made.lock().unwrap().insert(request.get_ref().repository_id);
                self.0.import_requests.lock().unwrap().push(request.into_inner());
            }
        }
        if mode == StoreMode::FailsAfterCreate {
            return Err(Status::internal("internal error"));
        }
        Ok(Response::new(git::StartMigrationResponse {}))
    }

    async fn get_migration(
        &self,
        request: Request<git::GetMigrationRequest>,
    ) -> Result<Response<git::GetMigrationResponse>, Status> {
        if *self.0.mode.lock().unwrap() == StoreMode::Down {
            return Err(Status::unavailable("down"));
        }
        if !self.0.made.lock().unwrap().contains(&request.get_ref().repository_id) {
            return Err(crate::error::RepoError::ImportNotFound.into());
        }
        let phase = git::MigrationPhase::Fetching.into();
        let error = String::new();
        Ok(Response::new(git::GetMigrationResponse { phase, object_count: 7, received_bytes: 70, error }))
    }
}

#[tonic::async_trait]
impl ReleaseStorageService for FakePeer {
    async fn create_tag(
        &self,
        request: Request<git::CreateTagRequest>,
    ) -> Result<Response<git::CreateTagResponse>, Status> {
        match *self.0.mode.lock().unwrap() {
            StoreMode::Down => return Err(Status::unavailable("down")),
            StoreMode::Refuses => {
                return Err(crate::error::RepoError::field("target_commitish", "unknown", "is no branch").into());
            }
            StoreMode::Works | StoreMode::FailsAfterCreate | StoreMode::Waits | StoreMode::KeepsHead => {
                self.note("create tag", &request);
                self.0.tags.lock().unwrap().push(request.into_inner());
            }
        }
        self.wait().await;
        Ok(Response::new(git::CreateTagResponse { was_made: true }))
    }

    async fn delete_asset_files(
        &self,
        request: Request<git::DeleteAssetFilesRequest>,
    ) -> Result<Response<git::DeleteAssetFilesResponse>, Status> {
        if *self.0.mode.lock().unwrap() == StoreMode::Down {
            return Err(Status::unavailable("down"));
        }
        self.note("delete files", &request);
        self.0.deleted_files.lock().unwrap().extend(request.into_inner().file_ids);
        Ok(Response::new(git::DeleteAssetFilesResponse {}))
    }
}

#[tonic::async_trait]
impl EventSink for FakePeer {
    async fn deliver(&self, request: Request<DeliverRequest>) -> Result<Response<DeliverResponse>, Status> {
        if !store_of(&request).is_empty() {
            self.note("deliver", &request);
        }
        self.0.events.lock().unwrap().extend(request.into_inner().events);
        Ok(Response::new(DeliverResponse {}))
    }
}
