//! The gRPC services: each handler decodes, calls and encodes. One file per RPC.

mod authorize;
mod change_files;
mod commit;
mod create_repository;
mod create_tag;
mod data;
mod delete_asset_files;
mod delete_contents;
mod delete_protection;
mod delete_repository;
mod deliver;
mod describe_updates;
mod encode;
mod finish;
mod get_branch;
mod get_commit;
mod get_contents;
mod get_protection;
mod get_store_status;
mod list_branches;
mod list_protections;
mod list_pushed_commits;
mod migration;
mod page;
mod put_contents;
mod set_default_branch;
mod set_protection;

use ferrite_kit::server::{GrpcServer, MAX_MESSAGE_BYTES};
use ferrite_proto::{
    events::{
        DeliverRequest, DeliverResponse,
        event_sink_server::{EventSink, EventSinkServer},
    },
    git::{
        ChangeFilesRequest, ChangeFilesResponse, CreateRepositoryRequest, CreateRepositoryResponse, CreateTagRequest,
        CreateTagResponse, DeleteAssetFilesRequest, DeleteAssetFilesResponse, DeleteContentsRequest,
        DeleteContentsResponse, DeleteProtectionRequest, DeleteProtectionResponse, DeleteRepositoryRequest,
        DeleteRepositoryResponse, DescribeUpdatesRequest, DescribeUpdatesResponse, GetBranchRequest, GetBranchResponse,
        GetCommitRequest, GetCommitResponse, GetContentsRequest, GetContentsResponse, GetProtectionRequest,
        GetProtectionResponse, GetStoreStatusRequest, GetStoreStatusResponse, ListBranchesRequest,
        ListBranchesResponse, ListProtectionsRequest, ListProtectionsResponse, ListPushedCommitsRequest,
        ListPushedCommitsResponse, PutContentsRequest, PutContentsResponse, SetDefaultBranchRequest,
        SetDefaultBranchResponse, SetProtectionRequest, SetProtectionResponse,
        git_data_service_server::GitDataServiceServer,
        git_service_server::{GitService, GitServiceServer},
        migration_service_server::MigrationServiceServer,
        mirror_service_server::MirrorServiceServer,
        protection_service_server::{ProtectionService, ProtectionServiceServer},
        release_storage_service_server::{ReleaseStorageService, ReleaseStorageServiceServer},
        storage_service_server::{StorageService, StorageServiceServer},
    },
};
use tonic::{Request, Response, Status};

pub(crate) use self::delete_repository::remove_deleted;
use crate::state::AppState;

/// Largest request message of `GitService`, in bytes: one file may have 50 MiB, several files 48 MiB together and two paths each;
/// the other fields are small.
const MAX_PUT_MESSAGE_BYTES: usize = 60 << 20;

/// Returns the server with all gRPC services of the process.
pub(crate) fn server(state: &AppState) -> GrpcServer {
    let rpc = Rpc(state.clone());
    GrpcServer::default()
        .add(GitServiceServer::new(rpc.clone()).max_decoding_message_size(MAX_PUT_MESSAGE_BYTES))
        .add(GitDataServiceServer::new(rpc.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(ProtectionServiceServer::new(rpc.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(MigrationServiceServer::new(rpc.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(MirrorServiceServer::new(rpc.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(ReleaseStorageServiceServer::new(rpc.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(StorageServiceServer::new(rpc.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(EventSinkServer::new(rpc).max_decoding_message_size(MAX_MESSAGE_BYTES))
}

/// Implements the gRPC services.
#[derive(Clone)]
struct Rpc(AppState);

type RpcResult<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl GitService for Rpc {
    async fn list_branches(&self, request: Request<ListBranchesRequest>) -> RpcResult<ListBranchesResponse> {
        Ok(Response::new(list_branches::list_branches(&self.0, request).await?))
    }

    async fn get_branch(&self, request: Request<GetBranchRequest>) -> RpcResult<GetBranchResponse> {
        Ok(Response::new(get_branch::get_branch(&self.0, request).await?))
    }

    async fn get_commit(&self, request: Request<GetCommitRequest>) -> RpcResult<GetCommitResponse> {
        Ok(Response::new(get_commit::get_commit(&self.0, request).await?))
    }

    async fn get_contents(&self, request: Request<GetContentsRequest>) -> RpcResult<GetContentsResponse> {
        Ok(Response::new(get_contents::get_contents(&self.0, request).await?))
    }

    async fn put_contents(&self, request: Request<PutContentsRequest>) -> RpcResult<PutContentsResponse> {
        Ok(Response::new(put_contents::put_contents(&self.0, request).await?))
    }

    async fn delete_contents(&self, request: Request<DeleteContentsRequest>) -> RpcResult<DeleteContentsResponse> {
        Ok(Response::new(delete_contents::delete_contents(&self.0, request).await?))
    }

    async fn change_files(&self, request: Request<ChangeFilesRequest>) -> RpcResult<ChangeFilesResponse> {
        Ok(Response::new(change_files::change_files(&self.0, request).await?))
    }
}

#[tonic::async_trait]
impl ProtectionService for Rpc {
    async fn list_protections(&self, request: Request<ListProtectionsRequest>) -> RpcResult<ListProtectionsResponse> {
        Ok(Response::new(list_protections::list_protections(&self.0, request).await?))
    }

    async fn get_protection(&self, request: Request<GetProtectionRequest>) -> RpcResult<GetProtectionResponse> {
        Ok(Response::new(get_protection::get_protection(&self.0, request).await?))
    }

    async fn set_protection(&self, request: Request<SetProtectionRequest>) -> RpcResult<SetProtectionResponse> {
        Ok(Response::new(set_protection::set_protection(&self.0, request).await?))
    }

    async fn delete_protection(
        &self,
        request: Request<DeleteProtectionRequest>,
    ) -> RpcResult<DeleteProtectionResponse> {
        Ok(Response::new(delete_protection::delete_protection(&self.0, request).await?))
    }
}

#[tonic::async_trait]
impl StorageService for Rpc {
    async fn create_repository(
        &self,
        request: Request<CreateRepositoryRequest>,
    ) -> RpcResult<CreateRepositoryResponse> {
        Ok(Response::new(create_repository::create_repository(&self.0, request).await?))
    }

    async fn delete_repository(
        &self,
        request: Request<DeleteRepositoryRequest>,
    ) -> RpcResult<DeleteRepositoryResponse> {
        Ok(Response::new(delete_repository::delete_repository(&self.0, request).await?))
    }

    async fn set_default_branch(
        &self,
        request: Request<SetDefaultBranchRequest>,
    ) -> RpcResult<SetDefaultBranchResponse> {
        Ok(Response::new(set_default_branch::set_default_branch(&self.0, request).await?))
    }

    async fn list_pushed_commits(
        &self,
        request: Request<ListPushedCommitsRequest>,
    ) -> RpcResult<ListPushedCommitsResponse> {
        Ok(Response::new(list_pushed_commits::list_pushed_commits(&self.0, request).await?))
    }

    async fn describe_updates(&self, request: Request<DescribeUpdatesRequest>) -> RpcResult<DescribeUpdatesResponse> {
        Ok(Response::new(describe_updates::describe_updates(&self.0, request).await?))
    }

    async fn get_store_status(&self, request: Request<GetStoreStatusRequest>) -> RpcResult<GetStoreStatusResponse> {
        Ok(Response::new(get_store_status::get_store_status(&self.0, &request).await?))
    }
}

#[tonic::async_trait]
impl ReleaseStorageService for Rpc {
    async fn create_tag(&self, request: Request<CreateTagRequest>) -> RpcResult<CreateTagResponse> {
        Ok(Response::new(create_tag::create_tag(&self.0, request).await?))
    }

    async fn delete_asset_files(
        &self,
        request: Request<DeleteAssetFilesRequest>,
    ) -> RpcResult<DeleteAssetFilesResponse> {
        Ok(Response::new(delete_asset_files::delete_asset_files(&self.0, request).await?))
    }
}

#[tonic::async_trait]
impl EventSink for Rpc {
    async fn deliver(&self, request: Request<DeliverRequest>) -> RpcResult<DeliverResponse> {
        Ok(Response::new(deliver::deliver(&self.0, request).await?))
    }
}
