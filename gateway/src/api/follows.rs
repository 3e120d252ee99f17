//! Followers of users, and the users whom they follow.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ferrite_proto::repo::{
    self, FollowUserRequest, IsFollowingRequest, ListFollowersRequest, ListFollowingRequest, UnfollowUserRequest,
};

use super::operation;
use super::state::ApiState;
use crate::auth::{Authenticated, RequestContext};
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::page::{Page, PageLimits};
use crate::http::path::Params;
use crate::http::query::Query;
use crate::http::routes::routes;

routes! { ApiState:
    "/api/v1/user/followers" => get my_followers as operation::LIST_FOLLOWERS;
    "/api/v1/user/following" => get my_following as operation::LIST_FOLLOWING;
    "/api/v1/user/following/{target}" =>
        get do_i_follow as operation::IS_FOLLOWING,
        put follow as operation::FOLLOW_USER,
        delete unfollow as operation::UNFOLLOW_USER;
    "/api/v1/users/{username}/followers" => get followers_of as operation::LIST_FOLLOWERS;
    "/api/v1/users/{username}/following" => get following_of as operation::LIST_FOLLOWING;
    "/api/v1/users/{username}/following/{target}" => get does_follow as operation::IS_FOLLOWING;
}

async fn my_followers(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    query: Query,
) -> Result<Response, ApiError> {
    followers(&api, &context, &query, String::new()).await
}

async fn followers_of(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
    query: Query,
) -> Result<Response, ApiError> {
    followers(&api, &context, &query, path.name("username")).await
}

async fn my_following(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    query: Query,
) -> Result<Response, ApiError> {
    following(&api, &context, &query, String::new()).await
}

async fn following_of(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
    query: Query,
) -> Result<Response, ApiError> {
    following(&api, &context, &query, path.name("username")).await
}

async fn followers(
    api: &ApiState,
    context: &RequestContext,
    query: &Query,
    username: String,
) -> Result<Response, ApiError> {
    let page = query.page(PageLimits::FOLLOWS);
    let request = context.request(ListFollowersRequest { username, page: page.number, page_size: page.size });
    let answer = api.clients.profiles().list_followers(request).await?.into_inner();
    Ok(page_of_users(api, context, query, page, answer.users, answer.total_count))
}

async fn following(
    api: &ApiState,
    context: &RequestContext,
    query: &Query,
    username: String,
) -> Result<Response, ApiError> {
    let page = query.page(PageLimits::FOLLOWS);
    let request = context.request(ListFollowingRequest { username, page: page.number, page_size: page.size });
    let answer = api.clients.profiles().list_following(request).await?.into_inner();
    Ok(page_of_users(api, context, query, page, answer.users, answer.total_count))
}

fn page_of_users(
    api: &ApiState,
    context: &RequestContext,
    query: &Query,
    page: Page,
    users: Vec<repo::User>,
    total: i64,
) -> Response {
    json::page(api.users(context, users), query.headers(page, total, &api.links))
}

async fn do_i_follow(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
) -> Result<Response, ApiError> {
    is_following(&api, &context, String::new(), path.name("target")).await
}

async fn does_follow(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
) -> Result<Response, ApiError> {
    is_following(&api, &context, path.name("username"), path.name("target")).await
}

async fn is_following(
    api: &ApiState,
    context: &RequestContext,
    username: String,
    target: String,
) -> Result<Response, ApiError> {
    let request = context.request(IsFollowingRequest { username, target });
    let answer = api.clients.profiles().is_following(request).await?.into_inner();
    if answer.is_following {
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
