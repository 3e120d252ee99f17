//! Followers of users, and the users whom they follow.

use ferrite_proto::operation;
use ferrite_proto::repo::{
    FollowUserRequest, IsFollowingRequest, ListFollowersRequest, ListFollowingRequest, UnfollowUserRequest,
};

use crate::api::call::{Authenticated, routes};
use crate::http::error::{ApiError, ApiResult};
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::Params;
use crate::http::query::Query;

routes! {
    "/api/v1/user/followers" => get followers as operation::LIST_FOLLOWERS;
    "/api/v1/user/following" => get following as operation::LIST_FOLLOWING;
    "/api/v1/user/following/{target}" =>
        get is_following as operation::IS_FOLLOWING,
        put follow as operation::FOLLOW_USER,
        delete unfollow as operation::UNFOLLOW_USER;
    "/api/v1/users/{username}/followers" => get followers as operation::LIST_FOLLOWERS;
    "/api/v1/users/{username}/following" => get following as operation::LIST_FOLLOWING;
    "/api/v1/users/{username}/following/{target}" => get is_following as operation::IS_FOLLOWING;
}

async fn followers(Authenticated(call): Authenticated, path: Params, query: Query) -> ApiResult {
    let (username, page) = (path.optional_name("username").unwrap_or_default(), query.page(PageLimits::FOLLOWS));
    let request = call.request(ListFollowersRequest { username, page: page.number, page_size: page.size });
    let response = call.clients.profiles().list_followers(request).await?.into_inner();
    Ok(json::page(call.users(response.users), query.headers(page, response.total_count, &call.links)))
}

async fn following(Authenticated(call): Authenticated, path: Params, query: Query) -> ApiResult {
    let (username, page) = (path.optional_name("username").unwrap_or_default(), query.page(PageLimits::FOLLOWS));
    let request = call.request(ListFollowingRequest { username, page: page.number, page_size: page.size });
    let response = call.clients.profiles().list_following(request).await?.into_inner();
    Ok(json::page(call.users(response.users), query.headers(page, response.total_count, &call.links)))
}

async fn is_following(Authenticated(call): Authenticated, path: Params) -> ApiResult {
    let (username, target) = (path.optional_name("username").unwrap_or_default(), path.name("target"));
    let response = call.clients.profiles().is_following(call.request(IsFollowingRequest { username, target })).await?;
    if response.into_inner().is_following {
        Ok(json::no_content())
    } else {
        Err(ApiError::not_found("user is not followed"))
    }
}

async fn follow(Authenticated(call): Authenticated, path: Params) -> ApiResult {
    let request = call.request(FollowUserRequest { username: path.name("target") });
    call.clients.profiles().follow_user(request).await?;
    Ok(json::no_content())
}

async fn unfollow(Authenticated(call): Authenticated, path: Params) -> ApiResult {
    let request = call.request(UnfollowUserRequest { username: path.name("target") });
    call.clients.profiles().unfollow_user(request).await?;
    Ok(json::no_content())
}
