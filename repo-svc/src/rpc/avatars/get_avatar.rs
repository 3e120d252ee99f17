use ferrite_proto::id::UserId;
use ferrite_proto::repo::{GetAvatarRequest, GetAvatarResponse};
use tonic::Request;

use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

pub(super) async fn handle(
    state: &AppState,
    _: Permit,
    request: Request<GetAvatarRequest>,
) -> Result<GetAvatarResponse, RepoError> {
    let found = state.avatars.find(UserId(request.get_ref().user_id)).await?.ok_or(RepoError::UserNotFound)?;
    Ok(GetAvatarResponse { content: found.content.unwrap_or_default(), sha256: found.sha256.unwrap_or_default() })
}
