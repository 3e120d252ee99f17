//! gRPC clients of the four services, over one channel each.

use std::time::Duration;

use ferrite_proto::repo::access_service_client::AccessServiceClient;
use ferrite_rpc::grpc::{Channel, StoreChannel};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

/// Deadline of a call, after which the client gets a 503.
pub(crate) const CALL_DEADLINE: Duration = Duration::from_secs(20);
/// Deadline of a call that creates a commit or a repository.
pub(crate) const LONG_CALL_DEADLINE: Duration = Duration::from_secs(30);
/// Maximum response of a service: services limit pages of texts to 16 MiB and directory listings to
/// 8 MiB.
const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;

#[derive(Clone, Debug)]
pub(crate) struct Clients {
    pub(crate) repo: Channel,
    pub(crate) issue: Channel,
    pub(crate) hook: Channel,
    /// Routes each call to the git store that the grant names.
    pub(crate) git: StoreChannel,
}

impl Clients {
    pub(crate) fn access(&self) -> AccessServiceClient<Channel> {
        AccessServiceClient::new(self.repo.clone())
    }

    /// Checks the health of repo-svc, which every request needs.
    pub(crate) async fn probe(&self) -> Result<(), tonic::Status> {
        let request = HealthCheckRequest { service: String::new() };
        let response = HealthClient::new(self.repo.clone()).check(request).await?.into_inner();
        match response.status() {
            ServingStatus::Serving => Ok(()),
            ServingStatus::Unknown | ServingStatus::NotServing | ServingStatus::ServiceUnknown => {
                Err(tonic::Status::unavailable("repo-svc is not ready"))
            }
        }
    }
}

/// Defines a function for each client over one channel, which is named after the package of its
/// services.
macro_rules! clients {
    ($package:ident over $channel:ident: $($name:ident is $module:ident::$client:ident;)+) => {
        impl Clients {
            $(pub(crate) fn $name(&self) -> ferrite_proto::$package::$module::$client<$channel> {
                ferrite_proto::$package::$module::$client::new(self.$package.clone())
                    .max_decoding_message_size(MAX_RESPONSE_BYTES)
            })+
        }
    };
}

clients! { repo over Channel:
    accounts is account_service_client::AccountServiceClient;
    avatars is avatar_service_client::AvatarServiceClient;
    repositories is repository_service_client::RepositoryServiceClient;
    imports is migration_service_client::MigrationServiceClient;
    releases is release_service_client::ReleaseServiceClient;
    transfers is transfer_service_client::TransferServiceClient;
    stars is star_service_client::StarServiceClient;
    watches is watch_service_client::WatchServiceClient;
    topics is topic_service_client::TopicServiceClient;
    profiles is profile_service_client::ProfileServiceClient;
    sessions is session_service_client::SessionServiceClient;
    user_settings is user_settings_service_client::UserSettingsServiceClient;
    public_keys is public_key_service_client::PublicKeyServiceClient;
    organizations is organization_service_client::OrganizationServiceClient;
    teams is team_service_client::TeamServiceClient;
    collaborators is collaborator_service_client::CollaboratorServiceClient;
    repository_teams is repository_team_service_client::RepositoryTeamServiceClient;
    deploy_keys is deploy_key_service_client::DeployKeyServiceClient;
    administration is administration_service_client::AdministrationServiceClient;
}

clients! { issue over Channel:
    issues is issue_service_client::IssueServiceClient;
    comments is comment_service_client::CommentServiceClient;
    labels is label_service_client::LabelServiceClient;
    milestones is milestone_service_client::MilestoneServiceClient;
    pulls is pull_service_client::PullServiceClient;
    reactions is reaction_service_client::ReactionServiceClient;
    reviews is review_service_client::ReviewServiceClient;
}

clients! { hook over Channel:
    hooks is hook_service_client::HookServiceClient;
    activities is activity_service_client::ActivityServiceClient;
    feeds is feed_service_client::FeedServiceClient;
    deliveries is delivery_service_client::DeliveryServiceClient;
}

clients! { git over StoreChannel:
    git is git_service_client::GitServiceClient;
    git_data is git_data_service_client::GitDataServiceClient;
    diffs is diff_service_client::DiffServiceClient;
    merges is merge_service_client::MergeServiceClient;
    lines is line_service_client::LineServiceClient;
    history is history_service_client::HistoryServiceClient;
    tags is tag_service_client::TagServiceClient;
    wikis is wiki_service_client::WikiServiceClient;
    protections is protection_service_client::ProtectionServiceClient;
    statuses is status_service_client::StatusServiceClient;
    mirrors is mirror_service_client::MirrorServiceClient;
}
