//! Followers of users, and the users whom they follow.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ferrite_proto::repo::{
    FollowUserRequest, IsFollowingRequest, ListFollowersRequest, ListFollowingRequest, UnfollowUserRequest,
};

use super::named_user::NamedUser;
use super::operation;
use super::state::ApiState;
use crate::auth::Authenticated;
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::Params;
use crate::http::query::Query;
use crate::http::routes::routes;

routes! { ApiState:
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

async fn followers(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    NamedUser(username): NamedUser,
    query: Query,
) -> Result<Response, ApiError> {
    let (username, page) = (username.unwrap_or_default(), query.page(PageLimits::FOLLOWS));
    let request = context.request(ListFollowersRequest { username, page: page.number, page_size: page.size });
    let answer = api.clients.profiles().list_followers(request).await?.into_inner();
    Ok(json::page(api.users(&context, answer.users), query.headers(page, answer.total_count, &api.links)))
}

async fn following(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    NamedUser(username): NamedUser,
    query: Query,
) -> Result<Response, ApiError> {
    let (username, page) = (username.unwrap_or_default(), query.page(PageLimits::FOLLOWS));
    let request = context.request(ListFollowingRequest { username, page: page.number, page_size: page.size });
    let answer = api.clients.profiles().list_following(request).await?.into_inner();
    Ok(json::page(api.users(&context, answer.users), query.headers(page, answer.total_count, &api.links)))
}

async fn is_following(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    NamedUser(username): NamedUser,
    path: Params,
) -> Result<Response, ApiError> {
    let (username, target) = (username.unwrap_or_default(), path.name("target"));
    let answer = api.clients.profiles().is_following(context.request(IsFollowingRequest { username, target })).await?;
    if answer.into_inner().is_following {
        Ok(StatusCode::NO_CONTENT.into_response())
    } else {
        Err(ApiError::not_found("user is not followed"))
    }
}

async fn follow(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
) -> Result<Response, ApiError> {
    let request = context.request(FollowUserRequest { username: path.name("target") });
    api.clients.profiles().follow_user(request).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn unfollow(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
) -> Result<Response, ApiError> {
    let request = context.request(UnfollowUserRequest { username: path.name("target") });
    api.clients.profiles().unfollow_user(request).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
