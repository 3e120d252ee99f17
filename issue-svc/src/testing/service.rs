//! The service under test on a real socket.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::Parser;
use ferrite_kit::db::Db;
use ferrite_kit::grpc::{Channel, channel};
use ferrite_kit::net::Address;
use ferrite_kit::server::{ListenerOptions, serve_all};
use ferrite_kit::startup::StartError;
use ferrite_kit::testing::{ServiceKeys, public_key_pem};
use ferrite_kit::{Lifecycle, Secret, args};
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::event_sink_client::EventSinkClient;
use ferrite_proto::events::event_sink_server::{EventSink, EventSinkServer};
use ferrite_proto::events::{DeliverRequest, DeliverResponse, Event, IssueChanged};
use ferrite_proto::issue::issue_service_client::IssueServiceClient;
use ferrite_proto::issue::{CreateIssueRequest, GetIssueRequest, Issue, ListIssuesRequest, ListIssuesResponse};
use ferrite_proto::operation;
use prost::Message;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tonic::{Request, Response, Status};

use super::TestCaller;
use crate::{Config, ROLE};

const DELIVER: &str = "ferrite.events.v1.EventSink/Deliver";

/// Stands in for repo-svc and hook-svc. Keeps the ids of the events that they got.
#[derive(Clone, Default)]
struct Subscriber(Arc<Mutex<HashSet<String>>>);

impl Subscriber {
    /// Serves at `address` until `life` stops.
    async fn serve(address: &Address, life: &Lifecycle) -> Self {
        let (subscriber, listener) = (Self::default(), address.bind().await.unwrap());
        let router = tonic::service::Routes::new(EventSinkServer::new(subscriber.clone())).into_axum_router();
        let own = life.clone();
        life.spawn("peer", async move { serve_all(vec![listener], router, ListenerOptions::default(), &own).await });
        subscriber
    }
}

#[tonic::async_trait]
impl EventSink for Subscriber {
    async fn deliver(&self, request: Request<DeliverRequest>) -> Result<Response<DeliverResponse>, Status> {
        let ids = request.into_inner().events.into_iter().map(|event| event.event_id);
        self.0.lock().unwrap().extend(ids);
        Ok(Response::new(DeliverResponse {}))
    }
}

/// The service on a Unix socket, beside a stand-in for repo-svc and hook-svc.
pub(crate) struct Service {
    address: Address,
    keys: ServiceKeys,
    subscriber: Subscriber,
    channel: Channel,
    db: Db,
    life: Lifecycle,
    task: JoinHandle<Result<(), StartError>>,
    _folder: TempDir,
}

impl Service {
    /// Starts the service without limits per hour.
    pub(crate) async fn start(url: &Secret) -> Self {
        Self::start_with(url, &["--issues-per-hour=0", "--comments-per-hour=0", "--text-bytes-per-hour=0"]).await
    }

    /// Starts the service with further flags.
    pub(crate) async fn start_with(url: &Secret, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let keys = ServiceKeys::write(folder.path());
        let [own_key, public_keys] = keys.flags(ROLE);
        std::fs::write(path("grant.pem"), public_key_pem()).unwrap();
        let (address, peer) = (format!("unix:{}", path("service.sock")), format!("unix:{}", path("peer.sock")));
        let own_flags = [
            "service",
            &format!("--listen={address}"),
            &format!("--database-url={}", url.expose()),
            &own_key,
            &public_keys,
            &format!("--grant-public-key-file={}", path("grant.pem")),
            &format!("--repo-address={peer}"),
            &format!("--hook-address={peer}"),
            &format!("--git-address={peer}"),
        ];
        let all = own_flags.iter().chain(flags).copied();
        let config = Config::try_parse_from(all).unwrap();

        let life = Lifecycle::new(Duration::from_secs(5));
        let subscriber = Subscriber::serve(&peer.parse().unwrap(), &life).await;
        let listeners = config.serve.bind().await.unwrap();
        let task = life.spawn("service", crate::run(config, listeners, life.clone()));
        while !life.is_ready() {
            assert!(!task.is_finished(), "the service did not start: {:?}", task.await);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let address: Address = address.parse().unwrap();
        Self {
            channel: channel(&address, None),
            address,
            keys,
            subscriber,
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

    /// Waits until all events of the outbox are delivered, and returns the number of events that repo-svc and hook-svc got.
    pub(crate) async fn wait_for_delivery(&self) -> usize {
        let waiting = "SELECT COUNT(*) FROM outbox WHERE delivered_us IS NULL";
        while self.db.one::<(i64,)>(waiting, &[]).await.unwrap().0 > 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        self.subscriber.0.lock().unwrap().len()
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
