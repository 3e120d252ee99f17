//! The RPCs of issue-svc, one a file; here only what they share.

mod create_issue;
mod deliver;
mod get_issue;
mod list_issues;

use std::sync::Arc;

use ferrite_kit::auth::{Access, Caller};
use ferrite_kit::outbox::{self, Relay};
use ferrite_kit::{Clock, timestamp};
use ferrite_proto::events::event_sink_server::EventSink;
use ferrite_proto::events::{DeliverRequest, DeliverResponse};
use ferrite_proto::grant::Grant;
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::issue_service_server::IssueService;
use ferrite_proto::issue::{
    CreateIssueRequest, CreateIssueResponse, GetIssueRequest, GetIssueResponse, IssueState, ListIssuesRequest,
    ListIssuesResponse,
};
use tonic::{Request, Response, Status};

use crate::error::IssueError;
use crate::model::Issue;
use crate::store::IssueStore;

/// Who takes the events of this service.
pub(crate) const SUBSCRIBER: &str = "repo-svc";

/// What every RPC works with.
#[derive(Clone, Debug)]
pub(crate) struct IssueRpc {
    pub(crate) store: IssueStore,
    pub(crate) access: Access,
    pub(crate) relay: Relay,
    pub(crate) clock: Clock,
}

impl IssueRpc {
    /// The caller's grant to do to a repository what it is calling, when the issue tracker is on.
    async fn authorize<T>(&self, request: &Request<T>, repository: i64) -> Result<Arc<Grant>, Status> {
        let grant = self.access.authorize(&Caller::of(request), RepositoryId(repository)).await?;
        if !grant.issues_enabled {
            return Err(IssueError::Disabled.into());
        }
        Ok(grant)
    }
}

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

fn encode(issue: Issue) -> ferrite_proto::issue::Issue {
    let state = if issue.is_closed { IssueState::Closed } else { IssueState::Open };
    ferrite_proto::issue::Issue {
        id: issue.id.0,
        repository_id: issue.repository.0,
        number: issue.number,
        user_id: issue.author.0,
        title: issue.title,
        body: issue.body,
        state: state.into(),
        comment_count: issue.comment_count,
        create_time: Some(timestamp(issue.created_us)),
        update_time: Some(timestamp(issue.updated_us)),
    }
}
