use ferrite_api_types::User;
use ferrite_api_types::convert::require;
use ferrite_proto::operation;
use ferrite_proto::repo::{GetAuthenticatedUserRequest, GetUserRequest, SearchUsersRequest};

use crate::api::call::{Authenticated, MaybeAuthenticated, operations};
use crate::http::error::ApiResult;
use crate::http::filters::{QueryOf, Search, filters};
use crate::http::page::SearchList;
use crate::http::path::Params;
use crate::http::response::{Json, Paged, SearchResults};

operations! {
    "/api/v1/user" => get me as operation::GET_AUTHENTICATED_USER;
    "/api/v1/users/search" => get search as operation::SEARCH_USERS;
    "/api/v1/users/{username}" => get get as operation::GET_USER;
}

filters! {
    /// Filters of a user search.
    struct UserFilters {
        /// A part of the user name or full name, ignoring case and without wildcards. An empty text
        /// matches nothing.
        q: Search = "ada",
    }
}

async fn me(Authenticated(call): Authenticated) -> ApiResult<Json<User>> {
    let request = call.request(GetAuthenticatedUserRequest {});
    let response = call.clients.accounts().get_authenticated_user(request).await?.into_inner();
    Ok(Json(call.user(require(response.user, "user")?)))
}

async fn get(MaybeAuthenticated(call): MaybeAuthenticated, path: Params) -> ApiResult<Json<User>> {
    let request = call.request(GetUserRequest { username: path.name("username") });
    let response = call.clients.accounts().get_user(request).await?.into_inner();
    Ok(Json(call.user(require(response.user, "user")?)))
}

async fn search(
    MaybeAuthenticated(call): MaybeAuthenticated,
    query: SearchList,
    filters: QueryOf<UserFilters>,
) -> ApiResult<Paged<SearchResults<User>>> {
    let UserFilters { q } = filters.read()?;
    let request = SearchUsersRequest { query: q, page: query.page.number, page_size: query.page.size };
    let response = call.clients.accounts().search_users(call.request(request)).await?.into_inner();
    let found = SearchResults { data: call.users(response.users), ok: true };
    Ok(query.paged(found, response.total_count, &call.links))
}
