//! The RPCs of issue-svc, one per file, and the dispatch to them.
//!
//! Not here: SQL, the rows that change together, and the rules of texts.

mod comments;
mod deliver;
mod issues;
mod labels;
mod limits;
mod milestones;
mod service;

use ferrite_kit::outbox;
use ferrite_proto::events::event_sink_server::EventSink;
use ferrite_proto::events::{DeliverRequest, DeliverResponse};
use tonic::{Request, Response, Status};

use crate::encode;
pub(crate) use limits::WriteLimits;
pub(crate) use service::IssueRpc;

/// Implements a service by one function for each call, in a module of the call's name.
macro_rules! dispatch {
    ($service:ident { $($call:ident($request:ident) -> $response:ident;)* }) => {
        #[tonic::async_trait]
        impl $service for IssueRpc {
            $(async fn $call(&self, request: Request<$request>) -> Result<Response<$response>, Status> {
                Ok($call::$call(self, request).await.map(Response::new)?)
            })*
        }
    };
}
use dispatch;

#[tonic::async_trait]
impl EventSink for IssueRpc {
    async fn deliver(&self, request: Request<DeliverRequest>) -> Result<Response<DeliverResponse>, Status> {
        let answer = outbox::deliver(self, self.store.db(), self.writer.clock.now_us(), request).await?;
        self.scans.wake();
        Ok(Response::new(answer))
    }
}
