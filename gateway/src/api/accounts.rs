use axum::extract::State;
use axum::response::Response;
use ferrite_proto::repo::{GetAuthenticatedUserRequest, GetUserRequest};

use crate::auth::{Anyone, Signed};
use crate::dto::{User, present};
use crate::error::ApiError;
use crate::json;
use crate::path::UserPath;
use crate::state::Gateway;

/// `GET /user`
pub(crate) async fn me(State(gateway): State<Gateway>, Signed(call): Signed) -> Result<Response, ApiError> {
    let request = call.request(GetAuthenticatedUserRequest {});
    let answer = gateway.clients.accounts().get_authenticated_user(request).await?.into_inner();
    Ok(json::ok(User::new(present(answer.user, "user")?, &gateway.links)))
}

/// `GET /users/{username}`
pub(crate) async fn get(
    State(gateway): State<Gateway>,
    Anyone(call): Anyone,
    path: UserPath,
) -> Result<Response, ApiError> {
    let Some(username) = path.username else {
        return Err(gateway.refusal(&call, ApiError::not_found("user does not exist")).await);
    };
    let request = call.request(GetUserRequest { username });
    let answer = gateway.clients.accounts().get_user(request).await?.into_inner();
    let mut user = present(answer.user, "user")?;
    if call.is_anonymous() {
        user.email.clear();
    }
    Ok(json::ok(User::new(user, &gateway.links)))
}
