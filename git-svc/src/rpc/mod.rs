//! The gRPC services. Each RPC decodes, calls and encodes; there is one file per noun. `GitService`
//! and `StorageService` span several nouns and live here.

mod branches;
mod commits;
mod contents;
mod data;
mod decode;
mod deliver;
mod diffs;
mod encode;
mod heads;
mod history;
mod imports;
mod lines;
mod merges;
mod protections;
mod pulls;
mod ref_writes;
mod releases;
mod repositories;
mod statuses;
mod tags;
mod wikis;

use ferrite_listener::service;
use ferrite_listener::{GrpcServer, MAX_MESSAGE_BYTES};
use ferrite_proto::{
    events::event_sink_server::EventSinkServer,
    git::{
        diff_service_server::DiffServiceServer,
        git_data_service_server::GitDataServiceServer,
        git_service_server::{GitService, GitServiceServer},
        history_service_server::HistoryServiceServer,
        line_service_server::LineServiceServer,
        merge_service_server::MergeServiceServer,
        migration_service_server::MigrationServiceServer,
        mirror_service_server::MirrorServiceServer,
        protection_service_server::ProtectionServiceServer,
        release_storage_service_server::ReleaseStorageServiceServer,
        status_service_server::StatusServiceServer,
        storage_service_server::{StorageService, StorageServiceServer},
        tag_service_server::TagServiceServer,
        wiki_service_server::WikiServiceServer,
        *,
    },
    id::RepositoryId,
};
use ferrite_rpc::auth::Caller;
use git_store::types::error::GitError;
use tonic::Request;

pub(crate) use self::repositories::remove_deleted;
use self::{
    branches::{create_branch, delete_branch, get_branch, list_branches, rename_branch, set_default_branch},
    commits::{describe_updates, get_commit, list_pushed_commits},
    contents::{change_files, create_contents, delete_contents, get_contents, put_contents},
    repositories::{create_repository, delete_repository, get_store_status},
};
use crate::{rpc_error::RpcError, state::AppState};

/// Size limit of a request message of `GitService`: one file of up to 50 MiB, or several files of
/// up to 48 MiB together with two paths each. The other fields are small.
const MAX_PUT_MESSAGE_BYTES: usize = 60 << 20;

pub(crate) fn server(state: &AppState) -> GrpcServer {
    GrpcServer::default()
        .add(GitServiceServer::new(state.clone()).max_decoding_message_size(MAX_PUT_MESSAGE_BYTES))
        .add(GitDataServiceServer::new(state.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(DiffServiceServer::new(state.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(HistoryServiceServer::new(state.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(LineServiceServer::new(state.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(MergeServiceServer::new(state.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(TagServiceServer::new(state.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(WikiServiceServer::new(state.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(ProtectionServiceServer::new(state.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(MigrationServiceServer::new(state.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(MirrorServiceServer::new(state.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(ReleaseStorageServiceServer::new(state.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(StatusServiceServer::new(state.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(StorageServiceServer::new(state.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(EventSinkServer::new(state.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
}

service!(GitService for AppState {
    list_branches(ListBranchesRequest) -> ListBranchesResponse;
    get_branch(GetBranchRequest) -> GetBranchResponse;
    create_branch(CreateBranchRequest) -> CreateBranchResponse;
    rename_branch(RenameBranchRequest) -> RenameBranchResponse;
    delete_branch(DeleteBranchRequest) -> DeleteBranchResponse;
    get_commit(GetCommitRequest) -> GetCommitResponse;
    get_contents(GetContentsRequest) -> GetContentsResponse;
    create_contents(CreateContentsRequest) -> CreateContentsResponse;
    put_contents(PutContentsRequest) -> PutContentsResponse;
    delete_contents(DeleteContentsRequest) -> DeleteContentsResponse;
    change_files(ChangeFilesRequest) -> ChangeFilesResponse;
});

service!(StorageService for AppState {
    create_repository(CreateRepositoryRequest) -> CreateRepositoryResponse;
    delete_repository(DeleteRepositoryRequest) -> DeleteRepositoryResponse;
    set_default_branch(SetDefaultBranchRequest) -> SetDefaultBranchResponse;
    list_pushed_commits(ListPushedCommitsRequest) -> ListPushedCommitsResponse;
    describe_updates(DescribeUpdatesRequest) -> DescribeUpdatesResponse;
    get_store_status(GetStoreStatusRequest) -> GetStoreStatusResponse;
});

/// Checks the caller's grant for the RPC on the repository whose id `repository` returns. Returns
/// the message and the id.
async fn authorize<T>(
    state: &AppState,
    request: Request<T>,
    repository: fn(&T) -> i64,
) -> Result<(T, RepositoryId), RpcError> {
    let caller = Caller::of(&request);
    let request = request.into_inner();
    let id = RepositoryId(repository(&request));
    state.authorize(&caller, id).await?;
    Ok((request, id))
}

/// Runs a write in its own task, so that it completes even if the caller disconnects.
async fn finish<T, F>(state: &AppState, work: impl FnOnce(AppState) -> F) -> Result<T, RpcError>
where
    T: Send + 'static,
    F: Future<Output = Result<T, RpcError>> + Send + 'static,
{
    let done = state.life.spawn_for_request("write", work(state.clone())).await;
    done.map_err(|error| GitError::Internal(format!("a write ended early: {error}")))?
}
