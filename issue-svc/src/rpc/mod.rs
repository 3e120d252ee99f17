//! The RPCs of issue-svc, one per file, and the dispatch to them.
//!
//! Not here: SQL, and the rules of titles and bodies.

mod create_issue;
mod deliver;
mod encode;
mod get_issue;
mod list_issues;
mod service;

use ferrite_kit::outbox;
use ferrite_proto::events::event_sink_server::EventSink;
use ferrite_proto::events::{DeliverRequest, DeliverResponse};
use ferrite_proto::issue::issue_service_server::IssueService;
use ferrite_proto::issue::{
    CreateIssueRequest, CreateIssueResponse, GetIssueRequest, GetIssueResponse, ListIssuesRequest, ListIssuesResponse,
};
use tonic::{Request, Response, Status};

pub(crate) use service::{IssueRpc, SUBSCRIBER};

#[tonic::async_trait]
impl IssueService for IssueRpc {
    async fn create_issue(
        &self,
        request: Request<CreateIssueRequest>,
    ) -> Result<Response<CreateIssueResponse>, Status> {
        create_issue::create_issue(self, request).await.map(Response::new)
    }

    async fn list_issues(&self, request: Request<ListIssuesRequest>) -> Result<Response<ListIssuesResponse>, Status> {
        list_issues::list_issues(self, request).await.map(Response::new)
    }

    async fn get_issue(&self, request: Request<GetIssueRequest>) -> Result<Response<GetIssueResponse>, Status> {
        get_issue::get_issue(self, request).await.map(Response::new)
    }
}

#[tonic::async_trait]
impl EventSink for IssueRpc {
    async fn deliver(&self, request: Request<DeliverRequest>) -> Result<Response<DeliverResponse>, Status> {
        Ok(Response::new(outbox::deliver(self, self.store.db(), self.clock.now_us(), request).await?))
    }
}
