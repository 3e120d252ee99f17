use std::sync::Arc;

use crate::state::AppState;

/// Implements every service of this process; see [`service!`].
#[derive(Clone, Debug)]
pub(crate) struct Rpc(pub(super) Arc<AppState>);

/// Implements the methods of one service for [`Rpc`]: each request passes the permission table, and is then answered by `handle` in
/// the module named like the method. `capacity` after a request type marks a request that names the capacity of its caller.
macro_rules! service {
    ($service:ident { $($method:ident($request:ty $(, $capacity:ident)?) -> $response:ty;)* }) => {
        #[tonic::async_trait]
        impl $service for $crate::rpc::dispatch::Rpc {
            $(async fn $method(
                &self,
                request: tonic::Request<$request>,
            ) -> Result<tonic::Response<$response>, tonic::Status> {
                let permit = $crate::rpc::permit::Permit::of(&request, service!(@capacity request $($capacity)?))?;
                Ok(tonic::Response::new($method::handle(&self.0, permit, request).await?))
            })*
        }
    };
    (@capacity $request:ident) => { $crate::access::Capacity::Own };
    (@capacity $request:ident capacity) => { $crate::rpc::permit::ActsAs::capacity($request.get_ref()) };
}
pub(super) use service;
