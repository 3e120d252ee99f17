//! Runs before every RPC: checks the permission table and sets the account whose hourly limits the
//! write counts against. The database handle does the counting.

use ferrite_core::writer::{Writer, never_refuse, refuse_at_commit, set_writer};
use ferrite_proto::id::UserId;
use ferrite_proto::operation::is_write;

use super::authorized::Authorized;
use crate::error::RepoError;
use crate::state::AppState;

/// Implements a gRPC service for [`AppState`]: each request passes the permission table and then
/// goes to the function named like the method. List the request fields that decide the caller's
/// capacity after the request type; see [`Capacity::named`](crate::access::Capacity::named).
macro_rules! authorized_service {
    ($service:ident { $($method:ident($request:ty $(, $field:ident)*) -> $response:ty;)* }) => {
        #[tonic::async_trait]
        impl $service for $crate::state::AppState {
            $(async fn $method(
                &self,
                request: tonic::Request<$request>,
            ) -> Result<tonic::Response<$response>, tonic::Status> {
                let capacity = authorized_service!(@capacity request $($field)*);
                let authorized = $crate::rpc::authorized::Authorized::of(&request, capacity)?;
                $crate::rpc::dispatch::write_as_caller(self, &authorized).await?;
                Ok(tonic::Response::new($method(self, authorized, request).await?))
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
pub(super) use authorized_service;

/// Sets the caller as the writer if the operation changes something.
pub(super) async fn write_as_caller(state: &AppState, authorized: &Authorized) -> Result<(), RepoError> {
    match authorized.identity() {
        Ok(caller) if is_write(authorized.operation()) => {
            write_as(state, UserId(caller.user_id), caller.is_admin).await
        }
        _ => Ok(()),
    }
}

/// If the request may revoke access, a reached limit rejects it at commit instead of at the first
/// write. Call it before the transaction, which then calls [`never_refuse_if`].
pub(super) fn refuse_at_commit_if(may_take_access_away: bool) {
    if may_take_access_away {
        refuse_at_commit();
    }
}

/// Exempts the request from the limit if all it does is revoke access. Call it in the transaction,
/// while the changed row is locked: of concurrent requests only one then finds access to revoke. So
/// revoking cannot happen more often than granting, which counts against the limit.
pub(super) fn never_refuse_if(takes_only_access_away: bool) {
    if takes_only_access_away {
        never_refuse();
    }
}

/// Sets a user other than the authenticated caller as the writer.
pub(super) async fn write_as(state: &AppState, user: UserId, is_admin: bool) -> Result<(), RepoError> {
    let rate_percent = state.creation_limit.rate_percent(user, is_admin).await?;
    set_writer(Writer { account: user, rate_percent });
    Ok(())
}
