//! The service under test on a real socket.

use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use ferrite_kit::db::Db;
use ferrite_kit::grpc::{Channel, channel};
use ferrite_kit::net::Address;
use ferrite_kit::service_key::{ServiceKey, ServiceTokenSource};
use ferrite_kit::startup::StartError;
use ferrite_kit::testing::public_key_pem;
use ferrite_kit::{Clock, Lifecycle, Secret, args};
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::event_sink_client::EventSinkClient;
use ferrite_proto::events::{DeliverRequest, Event, IssueChanged};
use ferrite_proto::issue::issue_service_client::IssueServiceClient;
use ferrite_proto::issue::{CreateIssueRequest, GetIssueRequest, Issue, ListIssuesRequest, ListIssuesResponse};
use ferrite_proto::operation;
use prost::Message;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tonic::Status;

use super::TestCaller;
use crate::Config;

const SERVICE_KEY: &str = "0123456789abcdef0123456789abcdef";
const DELIVER: &str = "ferrite.events.v1.EventSink/Deliver";

/// The service on a Unix socket. It subscribes to its own events in the place of repo-svc and hook-svc, and ignores them.
pub(crate) struct Service {
    channel: Channel,
    service_channel: Channel,
    db: Db,
    life: Lifecycle,
    task: JoinHandle<Result<(), StartError>>,
    _folder: TempDir,
}

impl Service {
    pub(crate) async fn start(url: &Secret) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(path("service.key"), SERVICE_KEY).unwrap();
        std::fs::write(path("grant.pem"), public_key_pem()).unwrap();
        let address = format!("unix:{}", path("service.sock"));
        let config = Config::try_parse_from([
            "service",
            &format!("--listen={address}"),
            &format!("--database-url={}", url.expose()),
            &format!("--service-key-file={}", path("service.key")),
            &format!("--grant-public-key-file={}", path("grant.pem")),
            &format!("--repo-address={address}"),
            &format!("--hook-address={address}"),
            &format!("--git-address={address}"),
        ])
        .unwrap();

        let life = Lifecycle::new(Duration::from_secs(5));
        let listeners = config.serve.bind().await.unwrap();
        let task = life.spawn("service", crate::run(config, listeners, life.clone()));
        while !life.is_ready() {
            assert!(!task.is_finished(), "the service did not start: {:?}", task.await);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let address: Address = address.parse().unwrap();
        let key = ServiceKey::new(SERVICE_KEY).unwrap();
        let credential = ServiceTokenSource::new(key, "repo-svc", Clock::system());
        Self {
            channel: channel(&address, None),
            service_channel: channel(&address, Some(Arc::new(credential))),
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

    pub(crate) async fn create(&self, caller: &TestCaller, request: CreateIssueRequest) -> Result<Issue, Status> {
        let answer = self.client().create_issue(caller.request(operation::CREATE_ISSUE, request)).await?;
        Ok(answer.into_inner().issue.unwrap())
    }

    pub(crate) async fn get(&self, caller: &TestCaller, repository_id: i64, number: i64) -> Result<Issue, Status> {
        let request = caller.request(operation::GET_ISSUE, GetIssueRequest { repository_id, number });
        let answer = self.client().get_issue(request).await?;
        Ok(answer.into_inner().issue.unwrap())
    }

    pub(crate) async fn list(
        &self,
        caller: &TestCaller,
        request: ListIssuesRequest,
    ) -> Result<ListIssuesResponse, Status> {
        Ok(self.client().list_issues(caller.request(operation::LIST_ISSUES, request)).await?.into_inner())
    }

    fn client(&self) -> IssueServiceClient<Channel> {
        // 50 issues of 1 MiB.
        IssueServiceClient::new(self.channel.clone()).max_decoding_message_size(64 * 1024 * 1024)
    }

    /// Returns the events for repo-svc, in order.
    pub(crate) async fn sent_changes(&self) -> Vec<IssueChanged> {
        let sql = "SELECT payload FROM outbox WHERE subscriber = 'repo-svc' AND kind = 'issue.changed' ORDER BY id";
        let rows: Vec<(Vec<u8>,)> = self.db.all(sql, &[]).await.unwrap();
        rows.into_iter()
            .map(|(payload,)| match Event::decode(payload.as_slice()).unwrap().fact {
                Some(Fact::IssueChanged(changed)) => changed,
                other => panic!("not an issue: {other:?}"),
            })
            .collect()
    }

    /// Waits until all events of the outbox are delivered, and returns the number of events in the inbox.
    pub(crate) async fn wait_for_delivery(&self) -> i64 {
        let waiting = "SELECT COUNT(*) FROM outbox WHERE delivered_us IS NULL";
        while self.db.one::<(i64,)>(waiting, &[]).await.unwrap().0 > 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        self.db.one::<(i64,)>("SELECT COUNT(*) FROM inbox", &[]).await.unwrap().0
    }

    /// Delivers events like repo-svc.
    pub(crate) async fn deliver(&self, events: Vec<Event>) -> Result<(), Status> {
        EventSinkClient::new(self.service_channel.clone()).deliver(DeliverRequest { events }).await.map(|_| ())
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
