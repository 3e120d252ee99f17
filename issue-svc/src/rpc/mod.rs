//! The RPCs of issue-svc, one noun per file.
//!
//! Not here: SQL, the rows that change together, and the rules of texts.

mod comments;
mod deliver;
mod issues;
mod labels;
mod limits;
mod milestones;
mod service;
#[cfg(test)]
mod tests;

use ferrite_events as outbox;
use ferrite_proto::events::event_sink_server::EventSink;
use ferrite_proto::events::{DeliverRequest, DeliverResponse};
use tonic::{Request, Response, Status};

pub(crate) use limits::WriteLimits;
pub(crate) use service::IssueRpc;

#[tonic::async_trait]
impl EventSink for IssueRpc {
    async fn deliver(&self, request: Request<DeliverRequest>) -> Result<Response<DeliverResponse>, Status> {
        let answer = outbox::deliver(self, self.store.db(), self.writer.clock.now_us(), request).await?;
        self.scans.wake();
        Ok(Response::new(answer))
    }
}
