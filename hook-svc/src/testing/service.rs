//! The service under test on a real socket.

use std::time::Duration;

use clap::Parser;
use ferrite_kit::db::Db;
use ferrite_kit::grpc::{Channel, channel};
use ferrite_kit::net::Address;
use ferrite_kit::startup::StartError;
use ferrite_kit::testing::{ServiceKeys, public_key_pem};
use ferrite_kit::{Lifecycle, Secret, args};
use ferrite_proto::events::event_sink_client::EventSinkClient;
use ferrite_proto::events::{DeliverRequest, Event};
use ferrite_proto::hook::delivery_service_client::DeliveryServiceClient;
use ferrite_proto::hook::hook_service_client::HookServiceClient;
use ferrite_proto::hook::{CreateHookRequest, Hook, HookOwner, ListHooksRequest, ListHooksResponse, hook_owner};
use ferrite_proto::metadata::AUTHORIZATION;
use ferrite_proto::operation;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tonic::Status;

use super::TestCaller;
use super::fake_repo::FakeRepo;
use crate::secrets::Sealer;
use crate::{Config, ROLE};

/// The key that seals URLs and secrets.
const SECRET_KEY: [u8; 32] = [9; 32];
const DELIVER: &str = "ferrite.events.v1.EventSink/Deliver";

/// Returns a sealer with the key of the service.
pub(crate) fn sealer() -> Sealer {
    Sealer::new(&SECRET_KEY)
}

/// Names a repository as the owner of webhooks.
#[expect(clippy::unnecessary_wraps, reason = "as the fields of requests have it")]
pub(crate) fn repository_owner(id: i64) -> Option<HookOwner> {
    Some(HookOwner { owner: Some(hook_owner::Owner::RepositoryId(id)) })
}

/// Names an organization as the owner of webhooks.
#[expect(clippy::unnecessary_wraps, reason = "as the fields of requests have it")]
pub(crate) fn organization_owner(name: &str) -> Option<HookOwner> {
    Some(HookOwner { owner: Some(hook_owner::Owner::Organization(name.to_owned())) })
}

/// Names the site as the owner of webhooks.
#[expect(clippy::unnecessary_wraps, reason = "as the fields of requests have it")]
pub(crate) fn site_owner() -> Option<HookOwner> {
    Some(HookOwner { owner: Some(hook_owner::Owner::Site(true)) })
}

/// Makes a request with an access token.
pub(crate) fn with_token<T>(token: &str, message: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.metadata_mut().insert(AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
    request
}

/// The service on a Unix socket, beside a stand-in for repo-svc.
pub(crate) struct Service {
    /// The stand-in for repo-svc.
    pub(crate) repo: FakeRepo,
    address: Address,
    keys: ServiceKeys,
    channel: Channel,
    db: Db,
    life: Lifecycle,
    task: JoinHandle<Result<(), StartError>>,
    _folder: TempDir,
}

impl Service {
    /// Starts the service without limits per hour.
    pub(crate) async fn start(url: &Secret) -> Self {
        Self::start_with(url, &["--creations-per-hour=0"]).await
    }

    /// Starts the service with further flags.
    pub(crate) async fn start_with(url: &Secret, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let keys = ServiceKeys::write(folder.path());
        let [own_key, public_keys] = keys.flags(ROLE);
        std::fs::write(path("grant.pem"), public_key_pem()).unwrap();
        std::fs::write(path("secret.key"), hex::encode(SECRET_KEY)).unwrap();
        let (address, repo_address) = (format!("unix:{}", path("service.sock")), format!("unix:{}", path("repo.sock")));
        let own_flags = [
            "service",
            &format!("--listen={address}"),
            &format!("--database-url={}", url.expose()),
            &own_key,
            &public_keys,
            &format!("--grant-public-key-file={}", path("grant.pem")),
            &format!("--secret-key-file={}", path("secret.key")),
            &format!("--repo-address={repo_address}"),
            &format!("--git-address={repo_address}"),
            "--owner-limit=4",
        ];
        let all = own_flags.iter().chain(flags).copied();
        let config = Config::try_parse_from(all).unwrap();

        let life = Lifecycle::new(Duration::from_secs(5));
        let repo = FakeRepo::start(&repo_address.parse().unwrap(), &life).await;
        let listeners = config.serve.bind().await.unwrap();
        let task = life.spawn("service", crate::run(config, listeners, life.clone()));
        while !life.is_ready() {
            assert!(!task.is_finished(), "the service did not start: {:?}", task.await);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let address: Address = address.parse().unwrap();
        Self {
            repo,
            channel: channel(&address, None),
            address,
            keys,
            db: Db::open(url, 2).await.unwrap(),
            life,
            task,
            _folder: folder,
        }
    }

    pub(crate) async fn stop(self) {
        self.db.close().await;
        self.life.stop();
        assert!(self.life.finished().await, "the service did not stop in time");
        self.task.await.unwrap().unwrap();
    }

    /// Returns a client that sends no credentials of its own.
    pub(crate) fn hooks(&self) -> HookServiceClient<Channel> {
        HookServiceClient::new(self.channel.clone())
    }

    /// As [`Service::hooks`], of deliveries.
    pub(crate) fn deliveries(&self) -> DeliveryServiceClient<Channel> {
        DeliveryServiceClient::new(self.channel.clone())
    }

    pub(crate) async fn create(&self, caller: &TestCaller, request: CreateHookRequest) -> Result<Hook, Status> {
        let answer = self.hooks().create_hook(caller.request(operation::CREATE_HOOK, request)).await?;
        Ok(answer.into_inner().hook.unwrap())
    }

    pub(crate) async fn list(
        &self,
        caller: &TestCaller,
        request: ListHooksRequest,
    ) -> Result<ListHooksResponse, Status> {
        let answer = self.hooks().list_hooks(caller.request(operation::LIST_HOOKS, request)).await?;
        Ok(answer.into_inner())
    }

    /// Returns the sealed secrets of all hooks, ordered by id.
    pub(crate) async fn secrets(&self) -> Vec<Option<Vec<u8>>> {
        let rows: Vec<(Option<Vec<u8>>,)> = self.db.all("SELECT secret FROM hooks ORDER BY id", &[]).await.unwrap();
        rows.into_iter().map(|(secret,)| secret).collect()
    }

    /// Returns the database.
    pub(crate) fn db(&self) -> &Db {
        &self.db
    }

    /// Delivers events, each by the role that tells of such facts.
    pub(crate) async fn deliver(&self, events: Vec<Event>) -> Result<(), Status> {
        self.keys.deliver(ROLE, &self.address, events).await
    }

    /// Delivers events as a caller who is no service.
    pub(crate) async fn deliver_as(&self, caller: &TestCaller, events: Vec<Event>) -> Result<(), Status> {
        let request = caller.request(DELIVER, DeliverRequest { events });
        EventSinkClient::new(self.channel.clone()).deliver(request).await.map(|_| ())
    }

    /// Returns how often an event is in the inbox.
    pub(crate) async fn inbox_count(&self, event_id: &str) -> i64 {
        let sql = "SELECT COUNT(*) FROM inbox WHERE event_id = $1";
        let (count,): (i64,) = self.db.one(sql, &args![event_id]).await.unwrap();
        count
    }
}
