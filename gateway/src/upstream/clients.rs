//! gRPC clients of the four services, over one channel each.

use std::time::Duration;

use ferrite_kit::grpc::{Channel, StoreChannel};
use ferrite_proto::git::git_data_service_client::GitDataServiceClient;
use ferrite_proto::git::git_service_client::GitServiceClient;
use ferrite_proto::git::mirror_service_client::MirrorServiceClient;
use ferrite_proto::git::protection_service_client::ProtectionServiceClient;
use ferrite_proto::hook::delivery_service_client::DeliveryServiceClient;
use ferrite_proto::hook::feed_service_client::FeedServiceClient;
use ferrite_proto::hook::hook_service_client::HookServiceClient;
use ferrite_proto::issue::comment_service_client::CommentServiceClient;
use ferrite_proto::issue::issue_service_client::IssueServiceClient;
use ferrite_proto::issue::label_service_client::LabelServiceClient;
use ferrite_proto::issue::milestone_service_client::MilestoneServiceClient;
use ferrite_proto::repo::access_service_client::AccessServiceClient;
use ferrite_proto::repo::account_service_client::AccountServiceClient;
use ferrite_proto::repo::administration_service_client::AdministrationServiceClient;
use ferrite_proto::repo::avatar_service_client::AvatarServiceClient;
use ferrite_proto::repo::collaborator_service_client::CollaboratorServiceClient;
use ferrite_proto::repo::deploy_key_service_client::DeployKeyServiceClient;
use ferrite_proto::repo::migration_service_client::MigrationServiceClient;
use ferrite_proto::repo::organization_service_client::OrganizationServiceClient;
use ferrite_proto::repo::profile_service_client::ProfileServiceClient;
use ferrite_proto::repo::public_key_service_client::PublicKeyServiceClient;
use ferrite_proto::repo::release_service_client::ReleaseServiceClient;
use ferrite_proto::repo::repository_service_client::RepositoryServiceClient;
use ferrite_proto::repo::star_service_client::StarServiceClient;
use ferrite_proto::repo::team_service_client::TeamServiceClient;
use ferrite_proto::repo::topic_service_client::TopicServiceClient;
use ferrite_proto::repo::transfer_service_client::TransferServiceClient;
use ferrite_proto::repo::watch_service_client::WatchServiceClient;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

/// Deadline of a call. A client gets 503 after it.
pub(crate) const CALL_DEADLINE: Duration = Duration::from_secs(20);
/// Deadline of a call that makes a commit or a repository.
pub(crate) const LONG_CALL_DEADLINE: Duration = Duration::from_secs(30);
/// Largest response of a service, in bytes: services cut pages of texts at 16 MiB, and the contents of a directory at 8 MiB.
const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;

/// Channels to the services; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Clients {
    pub(crate) repo: Channel,
    pub(crate) issue: Channel,
    pub(crate) hook: Channel,
    /// Channel to the git stores: calls go where the grant's repository is.
    pub(crate) git: StoreChannel,
}

impl Clients {
    pub(crate) fn access(&self) -> AccessServiceClient<Channel> {
        AccessServiceClient::new(self.repo.clone())
    }

    pub(crate) fn accounts(&self) -> AccountServiceClient<Channel> {
        AccountServiceClient::new(self.repo.clone()).max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    pub(crate) fn avatars(&self) -> AvatarServiceClient<Channel> {
        AvatarServiceClient::new(self.repo.clone()).max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    pub(crate) fn repositories(&self) -> RepositoryServiceClient<Channel> {
        RepositoryServiceClient::new(self.repo.clone()).max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    pub(crate) fn migrations(&self) -> MigrationServiceClient<Channel> {
        MigrationServiceClient::new(self.repo.clone()).max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    pub(crate) fn releases(&self) -> ReleaseServiceClient<Channel> {
        ReleaseServiceClient::new(self.repo.clone()).max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    pub(crate) fn transfers(&self) -> TransferServiceClient<Channel> {
        TransferServiceClient::new(self.repo.clone()).max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    pub(crate) fn stars(&self) -> StarServiceClient<Channel> {
        StarServiceClient::new(self.repo.clone()).max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    pub(crate) fn watches(&self) -> WatchServiceClient<Channel> {
        WatchServiceClient::new(self.repo.clone()).max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    pub(crate) fn topics(&self) -> TopicServiceClient<Channel> {
        TopicServiceClient::new(self.repo.clone()).max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    pub(crate) fn profiles(&self) -> ProfileServiceClient<Channel> {
        ProfileServiceClient::new(self.repo.clone()).max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    pub(crate) fn public_keys(&self) -> PublicKeyServiceClient<Channel> {
        PublicKeyServiceClient::new(self.repo.clone()).max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    pub(crate) fn organizations(&self) -> OrganizationServiceClient<Channel> {
        OrganizationServiceClient::new(self.repo.clone()).max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    pub(crate) fn teams(&self) -> TeamServiceClient<Channel> {
        TeamServiceClient::new(self.repo.clone()).max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    pub(crate) fn collaborators(&self) -> CollaboratorServiceClient<Channel> {
        CollaboratorServiceClient::new(self.repo.clone()).max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    pub(crate) fn deploy_keys(&self) -> DeployKeyServiceClient<Channel> {
        DeployKeyServiceClient::new(self.repo.clone()).max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    pub(crate) fn administration(&self) -> AdministrationServiceClient<Channel> {
        AdministrationServiceClient::new(self.repo.clone()).max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    pub(crate) fn issues(&self) -> IssueServiceClient<Channel> {
        IssueServiceClient::new(self.issue.clone()).max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    pub(crate) fn comments(&self) -> CommentServiceClient<Channel> {
        CommentServiceClient::new(self.issue.clone()).max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    pub(crate) fn labels(&self) -> LabelServiceClient<Channel> {
        LabelServiceClient::new(self.issue.clone()).max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    pub(crate) fn milestones(&self) -> MilestoneServiceClient<Channel> {
        MilestoneServiceClient::new(self.issue.clone()).max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    pub(crate) fn hooks(&self) -> HookServiceClient<Channel> {
        HookServiceClient::new(self.hook.clone()).max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    pub(crate) fn feeds(&self) -> FeedServiceClient<Channel> {
        FeedServiceClient::new(self.hook.clone()).max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    pub(crate) fn deliveries(&self) -> DeliveryServiceClient<Channel> {
        DeliveryServiceClient::new(self.hook.clone()).max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    pub(crate) fn git(&self) -> GitServiceClient<StoreChannel> {
        GitServiceClient::new(self.git.clone()).max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    pub(crate) fn git_data(&self) -> GitDataServiceClient<StoreChannel> {
        GitDataServiceClient::new(self.git.clone()).max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    pub(crate) fn protections(&self) -> ProtectionServiceClient<StoreChannel> {
        ProtectionServiceClient::new(self.git.clone()).max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    pub(crate) fn mirrors(&self) -> MirrorServiceClient<StoreChannel> {
        MirrorServiceClient::new(self.git.clone()).max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    /// Checks the health of repo-svc, which every request needs.
    ///
    /// # Errors
    /// When repo-svc cannot be reached or is not ready.
    pub(crate) async fn probe(&self) -> Result<(), tonic::Status> {
        let request = HealthCheckRequest { service: String::new() };
        let answer = HealthClient::new(self.repo.clone()).check(request).await?.into_inner();
        match answer.status() {
            ServingStatus::Serving => Ok(()),
            ServingStatus::Unknown | ServingStatus::NotServing | ServingStatus::ServiceUnknown => {
                Err(tonic::Status::unavailable("repo-svc is not ready"))
            }
        }
    }
}
