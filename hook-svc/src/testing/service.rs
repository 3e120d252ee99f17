//! The service under test on a real socket.

use std::ops::Deref;
use std::path::Path;

use ferrite_core::Secret;
use ferrite_core::net::Address;
use ferrite_core::sealing::Sealer;
use ferrite_events::testing::TestService;
use ferrite_proto::hook::delivery_service_client::DeliveryServiceClient;
use ferrite_proto::hook::hook_service_client::HookServiceClient;
use ferrite_proto::hook::{CreateHookRequest, Hook, HookOwner, ListHooksRequest, ListHooksResponse, hook_owner};
use ferrite_proto::metadata::AUTHORIZATION;
use ferrite_proto::operation;
use ferrite_rpc::grpc::Channel;
use tonic::Status;

use super::TestCaller;
use super::fake_repo::FakeRepo;
use crate::ROLE;
use crate::secrets;

const SECRET_KEY: [u8; 32] = [9; 32];

/// Returns a sealer with the key of the service.
pub(crate) fn sealer() -> Sealer {
    Sealer::new(&SECRET_KEY, &[], secrets::SERVICE)
}

#[expect(clippy::unnecessary_wraps, reason = "as the fields of requests have it")]
pub(crate) fn repository_owner(id: i64) -> Option<HookOwner> {
    Some(HookOwner { owner: Some(hook_owner::Owner::RepositoryId(id)) })
}

#[expect(clippy::unnecessary_wraps, reason = "as the fields of requests have it")]
pub(crate) fn organization_owner(name: &str) -> Option<HookOwner> {
    Some(HookOwner { owner: Some(hook_owner::Owner::Organization(name.to_owned())) })
}

#[expect(clippy::unnecessary_wraps, reason = "as the fields of requests have it")]
pub(crate) fn site_owner() -> Option<HookOwner> {
    Some(HookOwner { owner: Some(hook_owner::Owner::Site(true)) })
}

pub(crate) fn with_token<T>(token: &str, message: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.metadata_mut().insert(AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
    request
}

/// The service on a Unix socket, with a fake repo-svc.
pub(crate) struct Service {
    pub(crate) repo: FakeRepo,
    service: TestService,
}

impl Deref for Service {
    type Target = TestService;

    fn deref(&self) -> &TestService {
        &self.service
    }
}

impl Service {
    /// Starts the service without hourly limits.
    pub(crate) async fn start(url: &Secret) -> Self {
        Self::start_with(url, &["--creations-per-hour=0"]).await
    }

    /// Starts the service with further flags.
    pub(crate) async fn start_with(url: &Secret, flags: &[&str]) -> Self {
        let own_flags = |folder: &Path, peer: &Address| {
            let secret_key = folder.join("secret.key");
            std::fs::write(&secret_key, hex::encode(SECRET_KEY)).unwrap();
            let own = [
                format!("--secret-key-file={}", secret_key.display()),
                format!("--repo-address={peer}"),
                format!("--git-address={peer}"),
                "--owner-limit=4".to_owned(),
            ];
            own.into_iter().chain(flags.iter().map(|&flag| flag.to_owned())).collect()
        };
        let repo = FakeRepo::default();
        let service = TestService::start(ROLE, url, repo.routes(), own_flags, crate::run).await;
        Self { repo, service }
    }

    pub(crate) async fn stop(self) {
        self.service.stop().await;
    }

    /// Returns a client without credentials.
    pub(crate) fn hooks(&self) -> HookServiceClient<Channel> {
        HookServiceClient::new(self.channel.clone())
    }

    /// Returns a client without credentials.
    pub(crate) fn deliveries(&self) -> DeliveryServiceClient<Channel> {
        DeliveryServiceClient::new(self.channel.clone())
    }

    pub(crate) async fn create(&self, caller: &TestCaller, request: CreateHookRequest) -> Result<Hook, Status> {
        let response = self.hooks().create_hook(caller.request(operation::CREATE_HOOK, request)).await?;
        Ok(response.into_inner().hook.unwrap())
    }

    pub(crate) async fn list(
        &self,
        caller: &TestCaller,
        request: ListHooksRequest,
    ) -> Result<ListHooksResponse, Status> {
        let response = self.hooks().list_hooks(caller.request(operation::LIST_HOOKS, request)).await?;
        Ok(response.into_inner())
    }

    /// Returns the sealed secrets of all hooks, ordered by id.
    pub(crate) async fn secrets(&self) -> Vec<Option<Vec<u8>>> {
        let rows: Vec<(Option<Vec<u8>>,)> = self.db().all("SELECT secret FROM hooks ORDER BY id", &[]).await.unwrap();
        rows.into_iter().map(|(secret,)| secret).collect()
    }
}
