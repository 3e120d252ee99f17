use ferrite_api_types::User;
use ferrite_proto::operation;
use ferrite_proto::repo::{
    FollowUserRequest, IsFollowingRequest, ListFollowersRequest, ListFollowingRequest, UnfollowUserRequest,
};

use crate::api::call::{Authenticated, MaybeAuthenticated, operations};
use crate::http::error::{ApiError, ApiResult};
use crate::http::page::FollowList;
use crate::http::path::Params;
use crate::http::response::{List, NoContent};
use crate::http::routes::variant;

operations! {
    "/api/v1/user/followers" => get followers as variant(operation::LIST_FOLLOWERS, "OfCaller");
    "/api/v1/user/following" => get following as variant(operation::LIST_FOLLOWING, "OfCaller");
    "/api/v1/user/following/{target}" =>
        get is_following as variant(operation::IS_FOLLOWING, "ByCaller"),
        put follow as operation::FOLLOW_USER,
        delete unfollow as operation::UNFOLLOW_USER;
    "/api/v1/users/{username}/followers" => get followers as variant(operation::LIST_FOLLOWERS, "OfUser");
    "/api/v1/users/{username}/following" => get following as variant(operation::LIST_FOLLOWING, "OfUser");
    "/api/v1/users/{username}/following/{target}" =>
        get is_following as variant(operation::IS_FOLLOWING, "ByUser");
}

async fn followers(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: Params,
    query: FollowList,
) -> ApiResult<List<User>> {
    let (username, page) = (path.optional_name("username").unwrap_or_default(), query.page);
    let request = call.request(ListFollowersRequest { username, page: page.number, page_size: page.size });
    let response = call.clients.profiles().list_followers(request).await?.into_inner();
    Ok(query.list(call.users(response.users), response.total_count, &call.links))
}

async fn following(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: Params,
    query: FollowList,
) -> ApiResult<List<User>> {
    let (username, page) = (path.optional_name("username").unwrap_or_default(), query.page);
    let request = call.request(ListFollowingRequest { username, page: page.number, page_size: page.size });
    let response = call.clients.profiles().list_following(request).await?.into_inner();
    Ok(query.list(call.users(response.users), response.total_count, &call.links))
}

async fn is_following(Authenticated(call): Authenticated, path: Params) -> ApiResult<NoContent> {
    let (username, target) = (path.optional_name("username").unwrap_or_default(), path.name("target"));
    let response = call.clients.profiles().is_following(call.request(IsFollowingRequest { username, target })).await?;
    if response.into_inner().is_following { Ok(NoContent) } else { Err(ApiError::not_found("user is not followed")) }
}

async fn follow(Authenticated(call): Authenticated, path: Params) -> ApiResult<NoContent> {
    let request = call.request(FollowUserRequest { username: path.name("target") });
    call.clients.profiles().follow_user(request).await?;
    Ok(NoContent)
}

async fn unfollow(Authenticated(call): Authenticated, path: Params) -> ApiResult<NoContent> {
    let request = call.request(UnfollowUserRequest { username: path.name("target") });
    call.clients.profiles().unfollow_user(request).await?;
    Ok(NoContent)
}
