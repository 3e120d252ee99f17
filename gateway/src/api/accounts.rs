//! Users: the caller, others by name, and a search.

use axum::extract::State;
use axum::response::Response;
use ferrite_proto::repo::{GetAuthenticatedUserRequest, GetUserRequest, SearchUsersRequest};

use super::operation;
use super::state::ApiState;
use crate::auth::{Authenticated, MaybeAuthenticated};
use crate::dto::{SearchResults, require};
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::Params;
use crate::http::query::Query;
use crate::http::routes::routes;

routes! { ApiState:
    "/api/v1/user" => get me as operation::GET_AUTHENTICATED_USER;
    "/api/v1/users/search" => get search as operation::SEARCH_USERS;
    "/api/v1/users/{username}" => get get as operation::GET_USER;
}

async fn me(State(api): State<ApiState>, Authenticated(context): Authenticated) -> Result<Response, ApiError> {
    let request = context.request(GetAuthenticatedUserRequest {});
    let answer = api.clients.accounts().get_authenticated_user(request).await?.into_inner();
    Ok(json::ok(api.user(&context, require(answer.user, "user")?)))
}

async fn get(
    State(api): State<ApiState>,
    MaybeAuthenticated(context): MaybeAuthenticated,
    path: Params,
) -> Result<Response, ApiError> {
    let request = context.request(GetUserRequest { username: path.name("username") });
    let answer = api.clients.accounts().get_user(request).await?.into_inner();
    Ok(json::ok(api.user(&context, require(answer.user, "user")?)))
}

async fn search(
    State(api): State<ApiState>,
    MaybeAuthenticated(context): MaybeAuthenticated,
    query: Query,
) -> Result<Response, ApiError> {
    let page = query.page(PageLimits::LARGE_LIST);
    let request = SearchUsersRequest { query: query.filter("q"), page: page.number, page_size: page.size };
    let answer = api.clients.accounts().search_users(context.request(request)).await?.into_inner();
    let found = SearchResults { data: api.users(&context, answer.users), ok: true };
    Ok(json::page(found, query.headers(page, answer.total_count, &api.links)))
}
