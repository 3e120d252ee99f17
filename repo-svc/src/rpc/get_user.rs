use ferrite_kit::auth::Caller;
use ferrite_proto::repo::{GetUserRequest, GetUserResponse};
use tonic::Request;

use super::{encode, lookup};
use crate::RepoError;
use crate::access::Viewer;
use crate::core::Core;

pub(super) async fn handle(core: &Core, request: Request<GetUserRequest>) -> Result<GetUserResponse, RepoError> {
    let viewer = Viewer::of(Caller::of(&request).identity.as_ref());
    let user = lookup::user(core, &request.get_ref().username).await?;
    Ok(GetUserResponse { user: Some(encode::user(user, viewer)) })
}
