//! The service under test on a real socket.

use std::collections::HashSet;
use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferrite_core::Secret;
use ferrite_core::net::Address;
use ferrite_events::testing::TestService;
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::event_sink_server::{EventSink, EventSinkServer};
use ferrite_proto::events::{DeliverRequest, DeliverResponse, Event, IssueChanged};
use ferrite_proto::git::line_service_server::LineServiceServer;
use ferrite_proto::git::merge_service_server::MergeServiceServer;
use ferrite_proto::issue::issue_service_client::IssueServiceClient;
use ferrite_proto::issue::{CreateIssueRequest, GetIssueRequest, Issue, ListIssuesRequest, ListIssuesResponse};
use ferrite_proto::operation;
use ferrite_proto::repo::access_service_server::AccessServiceServer;
use ferrite_rpc::grpc::Channel;
use ferrite_rpc::testing::Fake;
use prost::Message;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use super::{PullPeer, TestCaller};
use crate::ROLE;

/// A fake repo-svc and hook-svc that records the ids of the events it receives.
#[derive(Clone, Default)]
struct Subscriber(Arc<Mutex<HashSet<String>>>);

#[tonic::async_trait]
impl EventSink for Subscriber {
    async fn deliver(&self, request: Request<DeliverRequest>) -> Result<Response<DeliverResponse>, Status> {
        let ids = request.into_inner().events.into_iter().map(|event| event.event_id);
        self.0.lock().unwrap().extend(ids);
        Ok(Response::new(DeliverResponse {}))
    }
}

/// The service on a Unix socket, with a fake repo-svc and hook-svc.
pub(crate) struct Service {
    subscriber: Subscriber,
    /// What repo-svc and git-svc know about pull requests.
    pub(crate) peer: PullPeer,
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
        Self::start_with(url, &["--issues-per-hour=0", "--comments-per-hour=0", "--text-bytes-per-hour=0"]).await
    }

    /// Starts the service with further flags.
    pub(crate) async fn start_with(url: &Secret, flags: &[&str]) -> Self {
        let own_flags = |_: &Path, peer: &Address| {
            let own = ["repo", "hook", "git"].map(|name| format!("--{name}-address={peer}"));
            own.into_iter().chain(flags.iter().map(|&flag| flag.to_owned())).collect()
        };
        let subscriber = Subscriber::default();
        let peer = PullPeer::default();
        let peers = Routes::new(EventSinkServer::new(subscriber.clone()))
            .add_service(AccessServiceServer::new(Fake(peer.clone())))
            .add_service(MergeServiceServer::new(Fake(peer.clone())))
            .add_service(LineServiceServer::new(Fake(peer.clone())));
        let service = TestService::start(ROLE, url, peers, own_flags, crate::run).await;
        Self { subscriber, peer, service }
    }

    pub(crate) async fn stop(self) {
        self.service.stop().await;
    }

    pub(crate) async fn create(&self, caller: &TestCaller, request: CreateIssueRequest) -> Result<Issue, Status> {
        let response = self.client().create_issue(caller.request(operation::CREATE_ISSUE, request)).await?;
        Ok(response.into_inner().issue.unwrap())
    }

    pub(crate) async fn get(&self, caller: &TestCaller, repository_id: i64, number: i64) -> Result<Issue, Status> {
        let request = caller.request(operation::GET_ISSUE, GetIssueRequest { repository_id, number });
        let response = self.client().get_issue(request).await?;
        Ok(response.into_inner().issue.unwrap())
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

    /// Returns the events for repo-svc in order.
    pub(crate) async fn sent_changes(&self) -> Vec<IssueChanged> {
        let sql = "SELECT payload FROM outbox WHERE subscriber = 'repo-svc' AND kind = 'issue.changed' ORDER BY id";
        let rows: Vec<(Vec<u8>,)> = self.db().all(sql, &[]).await.unwrap();
        rows.into_iter()
            .map(|(payload,)| match Event::decode(payload.as_slice()).unwrap().fact {
                Some(Fact::IssueChanged(changed)) => changed,
                other => panic!("not an issue: {other:?}"),
            })
            .collect()
    }

    /// Waits until the outbox is empty. Returns the number of events that repo-svc and hook-svc
    /// received.
    pub(crate) async fn wait_for_delivery(&self) -> usize {
        let waiting = "SELECT COUNT(*) FROM outbox WHERE delivered_us IS NULL";
        while self.db().one::<(i64,)>(waiting, &[]).await.unwrap().0 > 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        self.subscriber.0.lock().unwrap().len()
    }
}
