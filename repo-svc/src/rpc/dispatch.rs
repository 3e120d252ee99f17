//! What every request passes before its RPC: the permission table, and the account that it writes for, with the percentage of the limits
//! per hour that applies to it.
//!
//! Not here: counting, which the database handle does.

use ferrite_core::writer::{Writer, never_refuse, refuse_at_commit, set_writer};
use ferrite_proto::id::UserId;
use ferrite_proto::operation::is_write;

use super::authorized::Authorized;
use crate::error::RepoError;
use crate::state::AppState;

/// Implements the methods of one service for [`AppState`]: each request passes the permission table, and is then handled by the function
/// named like the method. After a request type stand its fields that decide the capacity of its caller; see
/// [`Capacity::named`](crate::access::Capacity::named).
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

/// Names the caller as the writer of a request that changes something.
///
/// # Errors
/// Those of the database.
pub(super) async fn write_as_caller(state: &AppState, authorized: &Authorized) -> Result<(), RepoError> {
    match authorized.identity() {
        Ok(caller) if is_write(authorized.operation()) => {
            write_as(state, UserId(caller.user_id), caller.is_admin).await
        }
        _ => Ok(()),
    }
}

/// Has a reached limit refuse the commit of the current request and not its transaction, if it may take access away. Called before the
/// transaction, which calls [`never_refuse_if`].
pub(super) fn refuse_at_commit_if(may_take_access_away: bool) {
    if may_take_access_away {
        refuse_at_commit();
    }
}

/// Has the current request done at a reached limit as well, if it does nothing but take access away. Called in its transaction, under the
/// lock of what it changes: of requests at the same time only one finds the access that it takes. So this cannot be done more often than
/// what gave the access, which is counted.
pub(super) fn never_refuse_if(takes_only_access_away: bool) {
    if takes_only_access_away {
        never_refuse();
    }
}

/// Names a user as the writer of the current request, for requests in which the user is not the caller that was authenticated.
///
/// # Errors
/// Those of the database.
pub(super) async fn write_as(state: &AppState, user: UserId, is_admin: bool) -> Result<(), RepoError> {
    let rate_percent = state.creation_limit.rate_percent(user, is_admin).await?;
    set_writer(Writer { account: user, rate_percent });
    Ok(())
}
