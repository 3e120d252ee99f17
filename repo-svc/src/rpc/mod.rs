//! The services of `ferrite.repo.v1` and the event sink: one RPC per file. Each decodes, asks the stores, encodes.
//!
//! Not here: SQL, and the rules of names and levels.

mod authenticate;
mod create_access_token;
mod create_repository;
mod create_user;
mod delete_access_token;
mod delete_repository;
mod deliver;
mod encode;
mod get_authenticated_user;
mod get_repository;
mod get_user;
mod get_users;
mod list_access_tokens;
mod list_repositories;
mod lookup;
mod resolve_access;
mod search_repositories;

use std::sync::Arc;

use ferrite_kit::grpc::{GrpcServer, MESSAGE_LIMIT};
use ferrite_proto::events::event_sink_server::{EventSink, EventSinkServer};
use ferrite_proto::events::{DeliverRequest, DeliverResponse};
use ferrite_proto::repo::access_service_server::{AccessService, AccessServiceServer};
use ferrite_proto::repo::account_service_server::{AccountService, AccountServiceServer};
use ferrite_proto::repo::repository_service_server::{RepositoryService, RepositoryServiceServer};
use ferrite_proto::repo::{
    AuthenticateRequest, AuthenticateResponse, CreateAccessTokenRequest, CreateAccessTokenResponse,
    CreateRepositoryRequest, CreateRepositoryResponse, CreateUserRequest, CreateUserResponse, DeleteAccessTokenRequest,
    DeleteAccessTokenResponse, DeleteRepositoryRequest, DeleteRepositoryResponse, GetAuthenticatedUserRequest,
    GetAuthenticatedUserResponse, GetRepositoryRequest, GetRepositoryResponse, GetUserRequest, GetUserResponse,
    GetUsersRequest, GetUsersResponse, ListAccessTokensRequest, ListAccessTokensResponse, ListRepositoriesRequest,
    ListRepositoriesResponse, ResolveAccessRequest, ResolveAccessResponse, SearchRepositoriesRequest,
    SearchRepositoriesResponse,
};
use tonic::{Request, Response, Status};

use crate::core::Core;

/// Adds the services of this process to `server`.
pub(crate) fn register(server: GrpcServer, core: Arc<Core>) -> GrpcServer {
    let rpc = Rpc(core);
    server
        .add(AccessServiceServer::new(rpc.clone()).max_decoding_message_size(MESSAGE_LIMIT))
        .add(AccountServiceServer::new(rpc.clone()).max_decoding_message_size(MESSAGE_LIMIT))
        .add(RepositoryServiceServer::new(rpc.clone()).max_decoding_message_size(MESSAGE_LIMIT))
        .add(EventSinkServer::new(rpc).max_decoding_message_size(MESSAGE_LIMIT))
}

#[derive(Clone, Debug)]
struct Rpc(Arc<Core>);

/// The methods of one service, each answered by the module of its name.
macro_rules! service {
    ($service:ident { $($method:ident($request:ty) -> $response:ty;)* }) => {
        #[tonic::async_trait]
        impl $service for Rpc {
            $(async fn $method(&self, request: Request<$request>) -> Result<Response<$response>, Status> {
                Ok(Response::new($method::handle(&self.0, request).await?))
            })*
        }
    };
}

service!(AccessService {
    authenticate(AuthenticateRequest) -> AuthenticateResponse;
    resolve_access(ResolveAccessRequest) -> ResolveAccessResponse;
});

service!(AccountService {
    get_authenticated_user(GetAuthenticatedUserRequest) -> GetAuthenticatedUserResponse;
    get_user(GetUserRequest) -> GetUserResponse;
    get_users(GetUsersRequest) -> GetUsersResponse;
    create_user(CreateUserRequest) -> CreateUserResponse;
    create_access_token(CreateAccessTokenRequest) -> CreateAccessTokenResponse;
    list_access_tokens(ListAccessTokensRequest) -> ListAccessTokensResponse;
    delete_access_token(DeleteAccessTokenRequest) -> DeleteAccessTokenResponse;
});

service!(RepositoryService {
    create_repository(CreateRepositoryRequest) -> CreateRepositoryResponse;
    get_repository(GetRepositoryRequest) -> GetRepositoryResponse;
    list_repositories(ListRepositoriesRequest) -> ListRepositoriesResponse;
    search_repositories(SearchRepositoriesRequest) -> SearchRepositoriesResponse;
    delete_repository(DeleteRepositoryRequest) -> DeleteRepositoryResponse;
});

service!(EventSink {
    deliver(DeliverRequest) -> DeliverResponse;
});

#[cfg(test)]
mod tests;
