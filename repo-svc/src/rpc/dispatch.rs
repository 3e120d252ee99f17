use std::sync::Arc;

use crate::state::AppState;

/// Implements every service of this process; see [`permitted_service!`].
#[derive(Clone, Debug)]
pub(crate) struct Rpc(pub(super) Arc<AppState>);

/// Implements the methods of one service for [`Rpc`]: each request passes the permission table, and is then answered by the function
/// named like the method. After a request type stand its fields that decide the capacity of its caller; see
/// [`Capacity::named`](crate::access::Capacity::named).
macro_rules! permitted_service {
    ($service:ident { $($method:ident($request:ty $(, $field:ident)*) -> $response:ty;)* }) => {
        #[tonic::async_trait]
        impl $service for $crate::rpc::dispatch::Rpc {
            $(async fn $method(
                &self,
                request: tonic::Request<$request>,
            ) -> Result<tonic::Response<$response>, tonic::Status> {
                let permit = $crate::rpc::permit::Permit::of(&request, permitted_service!(@capacity request $($field)*))?;
                $crate::rpc::writer::set(&self.0, &permit).await?;
                Ok(tonic::Response::new($method(&self.0, permit, request).await?))
            })*
        }
    };
    (@capacity $request:ident) => { $crate::access::Capacity::Own };
    (@capacity $request:ident as_administrator) => {
        $crate::access::Capacity::named($request.get_ref().as_administrator, "")
    };
    (@capacity $request:ident owner) => { $crate::access::Capacity::named(false, &$request.get_ref().owner) };
    (@capacity $request:ident as_administrator owner) => {
        $crate::access::Capacity::named($request.get_ref().as_administrator, &$request.get_ref().owner)
    };
}
pub(super) use permitted_service;
