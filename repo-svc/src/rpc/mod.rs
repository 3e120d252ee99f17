//! The services of `ferrite.repo.v1` and the event sink: one folder per service, one RPC per file. Each RPC decodes its request,
//! calls the stores and services of the application state, and encodes the response.
//!
//! Every request passes the permission table before its RPC runs, which gets the resulting [`Permit`](permit::Permit).
//!
//! Not here: SQL, and the rules of names and levels.

mod access;
mod accounts;
mod administration;
mod avatars;
mod change;
mod collaborators;
mod deliver;
mod deploy_keys;
mod dispatch;
mod encode;
mod keys;
mod lookup;
mod migrations;
mod organizations;
mod parents;
mod permit;
mod profile;
mod releases;
mod repeat;
mod repositories;
mod revoke;
mod stars;
mod teams;
mod topics;
mod transfers;
mod watches;

use std::sync::Arc;

use ferrite_kit::server::{GrpcServer, MAX_MESSAGE_BYTES};
use ferrite_proto::events::event_sink_server::{EventSink, EventSinkServer};
use ferrite_proto::events::{DeliverRequest, DeliverResponse};
use ferrite_proto::repo::access_service_server::AccessServiceServer;
use ferrite_proto::repo::account_service_server::AccountServiceServer;
use ferrite_proto::repo::administration_service_server::AdministrationServiceServer;
use ferrite_proto::repo::avatar_service_server::AvatarServiceServer;
use ferrite_proto::repo::collaborator_service_server::CollaboratorServiceServer;
use ferrite_proto::repo::deploy_key_service_server::DeployKeyServiceServer;
use ferrite_proto::repo::migration_service_server::MigrationServiceServer;
use ferrite_proto::repo::organization_service_server::OrganizationServiceServer;
use ferrite_proto::repo::profile_service_server::ProfileServiceServer;
use ferrite_proto::repo::public_key_service_server::PublicKeyServiceServer;
use ferrite_proto::repo::release_service_server::ReleaseServiceServer;
use ferrite_proto::repo::repository_service_server::RepositoryServiceServer;
use ferrite_proto::repo::star_service_server::StarServiceServer;
use ferrite_proto::repo::team_service_server::TeamServiceServer;
use ferrite_proto::repo::topic_service_server::TopicServiceServer;
use ferrite_proto::repo::transfer_service_server::TransferServiceServer;
use ferrite_proto::repo::watch_service_server::WatchServiceServer;

use self::dispatch::{Rpc, service};
use crate::state::AppState;

/// Adds the services of this process to `server`.
pub(crate) fn register(server: GrpcServer, state: Arc<AppState>) -> GrpcServer {
    let rpc = Rpc(state);
    server
        .add(AccessServiceServer::new(rpc.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(AccountServiceServer::new(rpc.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(AdministrationServiceServer::new(rpc.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(AvatarServiceServer::new(rpc.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(OrganizationServiceServer::new(rpc.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(TeamServiceServer::new(rpc.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(ProfileServiceServer::new(rpc.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(PublicKeyServiceServer::new(rpc.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(CollaboratorServiceServer::new(rpc.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(DeployKeyServiceServer::new(rpc.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(MigrationServiceServer::new(rpc.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(ReleaseServiceServer::new(rpc.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(RepositoryServiceServer::new(rpc.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(TransferServiceServer::new(rpc.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(StarServiceServer::new(rpc.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(WatchServiceServer::new(rpc.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(TopicServiceServer::new(rpc.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add(EventSinkServer::new(rpc).max_decoding_message_size(MAX_MESSAGE_BYTES))
}

service!(EventSink {
    deliver(DeliverRequest) -> DeliverResponse;
});

#[cfg(test)]
mod tests;
