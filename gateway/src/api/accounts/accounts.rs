//! Users: the caller, others by name, and a search.

use ferrite_proto::operation;
use ferrite_proto::repo::{GetAuthenticatedUserRequest, GetUserRequest, SearchUsersRequest};

use crate::api::call::{Authenticated, MaybeAuthenticated, routes};
use crate::dto::{SearchResults, require};
use crate::http::error::ApiResult;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::Params;
use crate::http::query::Query;

routes! {
    "/api/v1/user" => get me as operation::GET_AUTHENTICATED_USER;
    "/api/v1/users/search" => get search as operation::SEARCH_USERS;
    "/api/v1/users/{username}" => get get as operation::GET_USER;
}

async fn me(Authenticated(call): Authenticated) -> ApiResult {
    let request = call.request(GetAuthenticatedUserRequest {});
    let response = call.clients.accounts().get_authenticated_user(request).await?.into_inner();
    Ok(json::ok(call.user(require(response.user, "user")?)))
}

async fn get(MaybeAuthenticated(call): MaybeAuthenticated, path: Params) -> ApiResult {
    let request = call.request(GetUserRequest { username: path.name("username") });
    let response = call.clients.accounts().get_user(request).await?.into_inner();
    Ok(json::ok(call.user(require(response.user, "user")?)))
}

async fn search(MaybeAuthenticated(call): MaybeAuthenticated, query: Query) -> ApiResult {
    let page = query.page(PageLimits::LARGE_LIST);
    let request = SearchUsersRequest { query: query.filter("q"), page: page.number, page_size: page.size };
    let response = call.clients.accounts().search_users(call.request(request)).await?.into_inner();
    let found = SearchResults { data: call.users(response.users), ok: true };
    Ok(json::page(found, query.headers(page, response.total_count, &call.links)))
}
