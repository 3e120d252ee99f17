//! The gRPC services of `ferrite.repo.v1` and the event sink, one file or small folder per service.
//! Each RPC decodes the request, calls tables and services, and encodes the response.
//!
//! Every request passes the permission table first and reaches the RPC as
//! [`Authorized`](authorized::Authorized).

mod access;
mod accounts;
mod administration;
mod authorized;
mod avatars;
mod change;
mod collaborators;
mod deliver;
mod deploy_keys;
mod dispatch;
mod encode;
mod imports;
mod lookup;
mod lost_rights;
mod organization_lists;
mod organizations;
mod profiles;
mod public_keys;
mod releases;
mod repeat;
mod repositories;
mod repository_teams;
mod reviewers;
mod sessions;
mod stars;
mod team_members;
mod teams;
mod topics;
mod transfers;
mod user_settings;
mod versions;
mod watches;

use ferrite_listener::{GrpcServer, MAX_MESSAGE_BYTES};
use ferrite_proto::events::event_sink_server::EventSinkServer;
use ferrite_proto::repo;

use crate::state::AppState;

/// Adds services with the message size limit.
macro_rules! add_services {
    ($server:ident, $state:ident, $($($service:ident)::+),* $(,)?) => {
        $server$(.add($($service)::+::new($state.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES)))*
    };
}

pub(crate) fn register(server: GrpcServer, state: &AppState) -> GrpcServer {
    add_services!(
        server,
        state,
        repo::access_service_server::AccessServiceServer,
        repo::account_service_server::AccountServiceServer,
        repo::administration_service_server::AdministrationServiceServer,
        repo::avatar_service_server::AvatarServiceServer,
        repo::organization_service_server::OrganizationServiceServer,
        repo::team_service_server::TeamServiceServer,
        repo::profile_service_server::ProfileServiceServer,
        repo::public_key_service_server::PublicKeyServiceServer,
        repo::collaborator_service_server::CollaboratorServiceServer,
        repo::repository_team_service_server::RepositoryTeamServiceServer,
        repo::deploy_key_service_server::DeployKeyServiceServer,
        repo::migration_service_server::MigrationServiceServer,
        repo::release_service_server::ReleaseServiceServer,
        repo::repository_service_server::RepositoryServiceServer,
        repo::transfer_service_server::TransferServiceServer,
        repo::session_service_server::SessionServiceServer,
        repo::user_settings_service_server::UserSettingsServiceServer,
        repo::star_service_server::StarServiceServer,
        repo::watch_service_server::WatchServiceServer,
        repo::topic_service_server::TopicServiceServer,
        EventSinkServer,
    )
}

#[cfg(test)]
mod tests;
