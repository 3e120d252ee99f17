use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ferrite_proto::repo::{
    self, FollowUserRequest, IsFollowingRequest, ListFollowersRequest, ListFollowingRequest, UnfollowUserRequest,
};

use super::operation;
use crate::auth::{Call, Signed};
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::page::{FOLLOWS, Page, Query};
use crate::http::path::Params;
use crate::http::routes::routes;
use crate::state::Gateway;

routes! { Gateway:
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
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    query: Query,
) -> Result<Response, ApiError> {
    followers(&gateway, &call, &query, String::new()).await
}

async fn followers_of(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: Params,
    query: Query,
) -> Result<Response, ApiError> {
    followers(&gateway, &call, &query, path.name("username")).await
}

async fn my_following(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    query: Query,
) -> Result<Response, ApiError> {
    following(&gateway, &call, &query, String::new()).await
}

async fn following_of(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: Params,
    query: Query,
) -> Result<Response, ApiError> {
    following(&gateway, &call, &query, path.name("username")).await
}

async fn followers(gateway: &Gateway, call: &Call, query: &Query, username: String) -> Result<Response, ApiError> {
    let page = query.page(FOLLOWS);
    let request = call.request(ListFollowersRequest { username, page: page.number, page_size: page.size });
    let answer = gateway.clients.profiles().list_followers(request).await?.into_inner();
    Ok(shown(gateway, call, query, page, answer.users, answer.total_count))
}

async fn following(gateway: &Gateway, call: &Call, query: &Query, username: String) -> Result<Response, ApiError> {
    let page = query.page(FOLLOWS);
    let request = call.request(ListFollowingRequest { username, page: page.number, page_size: page.size });
    let answer = gateway.clients.profiles().list_following(request).await?.into_inner();
    Ok(shown(gateway, call, query, page, answer.users, answer.total_count))
}

fn shown(gateway: &Gateway, call: &Call, query: &Query, page: Page, users: Vec<repo::User>, total: i64) -> Response {
    json::page(gateway.users(call, users), query.headers(page, total, &gateway.links))
}

async fn do_i_follow(State(gateway): State<Gateway>, Signed(call): Signed, path: Params) -> Result<Response, ApiError> {
    is_following(&gateway, &call, String::new(), path.name("target")).await
}

async fn does_follow(State(gateway): State<Gateway>, Signed(call): Signed, path: Params) -> Result<Response, ApiError> {
    is_following(&gateway, &call, path.name("username"), path.name("target")).await
}

async fn is_following(gateway: &Gateway, call: &Call, username: String, target: String) -> Result<Response, ApiError> {
    let request = call.request(IsFollowingRequest { username, target });
    let answer = gateway.clients.profiles().is_following(request).await?.into_inner();
    if answer.is_following {
        Ok(StatusCode::NO_CONTENT.into_response())
    } else {
        Err(ApiError::not_found("user is not followed"))
    }
}

async fn follow(State(gateway): State<Gateway>, Signed(call): Signed, path: Params) -> Result<Response, ApiError> {
    let request = call.request(FollowUserRequest { username: path.name("target") });
    gateway.clients.profiles().follow_user(request).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn unfollow(State(gateway): State<Gateway>, Signed(call): Signed, path: Params) -> Result<Response, ApiError> {
    let request = call.request(UnfollowUserRequest { username: path.name("target") });
    gateway.clients.profiles().unfollow_user(request).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
