//! The RPCs of hook-svc, one per file, and the dispatch to them.
//!
//! Not here: SQL, and the rules of URLs, types and events.

mod audit;
mod authorize;
mod deliver;
mod deliveries;
mod feed;
mod hooks;
mod service;
mod split;

pub(crate) use audit::SUBSCRIBER;
pub(crate) use deliver::Intake;
pub(crate) use feed::FeedRpc;
pub(crate) use service::HookRpc;

/// Implements a service by one function for each call, in a module of the call's name.
macro_rules! dispatch {
    ($service:ident { $($call:ident($request:ident) -> $response:ident;)* }) => {
        #[tonic::async_trait]
        impl $service for HookRpc {
            $(async fn $call(&self, request: Request<$request>) -> Result<Response<$response>, Status> {
                Ok($call::$call(self, request).await.map(Response::new)?)
            })*
        }
    };
}
use dispatch;
