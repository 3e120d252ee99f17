use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use ferrite_proto::repo::CreateUserRequest;

use crate::auth::Signed;
use crate::body::{Fields, JSON_BYTES, Payload, Slot};
use crate::dto::{User, present};
use crate::error::ApiError;
use crate::json;
use crate::state::Gateway;

/// `POST /admin/users`
pub(crate) async fn create_user(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    payload: Payload,
) -> Result<Response, ApiError> {
    let (request, _slot) = match payload.fields(&gateway, JSON_BYTES).await.and_then(decode) {
        Ok(decoded) => decoded,
        Err(error) => {
            let identity = gateway.identity(&call).await?;
            let forbidden = || ApiError::new(StatusCode::FORBIDDEN, "site administrators only");
            return Err(if identity.is_admin { error } else { forbidden() });
        }
    };
    let answer = gateway.clients.accounts().create_user(call.request(request)).await?.into_inner();
    Ok(json::created(User::new(present(answer.user, "user")?, &gateway.links)))
}

fn decode(mut fields: Fields) -> Result<(CreateUserRequest, Slot), ApiError> {
    let request = CreateUserRequest {
        username: fields.required("username"),
        email: fields.required("email"),
        password: fields.required("password"),
        full_name: fields.text_or_empty("full_name"),
        is_admin: false,
    };
    if fields.number("source_id") != 0 {
        fields.refuse("source_id", "unknown", "there are local accounts only");
    }
    Ok((request, fields.finish()?))
}
