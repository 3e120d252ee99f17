use ferrite_proto::repo::{GetAuthenticatedUserRequest, GetAuthenticatedUserResponse, User};
use tonic::Request;

use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

pub(super) async fn handle(
    _: &AppState,
    permit: Permit,
    _: Request<GetAuthenticatedUserRequest>,
) -> Result<GetAuthenticatedUserResponse, RepoError> {
    // The identity was read for this request, so it is up to date.
    let identity = permit.identity()?;
    let user = User {
        id: identity.user_id,
        username: identity.username.clone(),
        full_name: identity.full_name.clone(),
        email: identity.email.clone(),
        is_organization: false,
        is_admin: identity.is_admin,
    };
    Ok(GetAuthenticatedUserResponse { user: Some(user) })
}
