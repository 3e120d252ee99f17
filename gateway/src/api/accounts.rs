use axum::extract::State;
use axum::response::Response;
use ferrite_proto::repo::{GetAuthenticatedUserRequest, GetUserRequest, SearchUsersRequest};

use super::operation;
use crate::auth::{Anyone, Signed};
use crate::dto::{Found, present};
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::page::{MANY, Query};
use crate::http::path::Params;
use crate::http::routes::routes;
use crate::state::Gateway;

routes! { Gateway:
    "/api/v1/user" => get me as operation::GET_AUTHENTICATED_USER;
    "/api/v1/users/search" => get search as operation::SEARCH_USERS;
    "/api/v1/users/{username}" => get get as operation::GET_USER;
}

async fn me(State(gateway): State<Gateway>, Signed(call): Signed) -> Result<Response, ApiError> {
    let request = call.request(GetAuthenticatedUserRequest {});
    let answer = gateway.clients.accounts().get_authenticated_user(request).await?.into_inner();
    Ok(json::ok(gateway.user(&call, present(answer.user, "user")?)))
}

async fn get(State(gateway): State<Gateway>, Anyone(call): Anyone, path: Params) -> Result<Response, ApiError> {
    let request = call.request(GetUserRequest { username: path.name("username") });
    let answer = gateway.clients.accounts().get_user(request).await?.into_inner();
    Ok(json::ok(gateway.user(&call, present(answer.user, "user")?)))
}

async fn search(State(gateway): State<Gateway>, Anyone(call): Anyone, query: Query) -> Result<Response, ApiError> {
    let page = query.page(MANY);
    let request = SearchUsersRequest { query: query.filter("q"), page: page.number, page_size: page.size };
    let answer = gateway.clients.accounts().search_users(call.request(request)).await?.into_inner();
    let found = Found { data: gateway.users(&call, answer.users), ok: true };
    Ok(json::page(found, query.headers(page, answer.total_count, &gateway.links)))
}
