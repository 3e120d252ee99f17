//! What administrators of the site do: to accounts, and in the name of others.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ferrite_proto::repo::{CreateUserRequest, DeleteUserRequest, UpdateUserRequest};

use super::access::Attempt;
use super::{keys, operation, orgs, repos, teams};
use crate::auth::Signed;
use crate::dto::present;
use crate::http::body::{Fields, Payload};
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::path::Params;
use crate::http::routes::{administrator, routes};
use crate::state::Gateway;

routes! { Gateway:
    "/api/v1/admin/users" => post create as operation::CREATE_USER;
    "/api/v1/admin/users/{username}" => patch update as operation::UPDATE_USER, delete remove as operation::DELETE_USER;
    "/api/v1/admin/users/{username}/keys" => post create_key as administrator(operation::CREATE_PUBLIC_KEY);
    "/api/v1/admin/users/{username}/orgs" => post create_organization as administrator(operation::CREATE_ORGANIZATION);
    "/api/v1/admin/users/{username}/repos" => post create_repository as administrator(operation::CREATE_REPOSITORY);
    "/api/v1/admin/orgs/{org}/teams" => post teams::create::<true> as administrator(operation::CREATE_TEAM);
    "/api/v1/admin/teams/{id}/members" => get teams::members::<true> as administrator(operation::LIST_TEAM_MEMBERS);
    "/api/v1/admin/teams/{id}/members/{username}" =>
        put teams::add_member::<true> as administrator(operation::ADD_TEAM_MEMBER),
        delete teams::remove_member::<true> as administrator(operation::REMOVE_TEAM_MEMBER);
    "/api/v1/admin/teams/{id}/repos/{repo}" =>
        put teams::add_repository::<true> as administrator(operation::ADD_TEAM_REPOSITORY),
        delete teams::remove_repository::<true> as administrator(operation::REMOVE_TEAM_REPOSITORY);
}

async fn create(State(gateway): State<Gateway>, Signed(call): Signed, payload: Payload) -> Result<Response, ApiError> {
    let attempt = Attempt::of(operation::CREATE_USER);
    let decode = gateway.decoded(&call, attempt, payload, |fields| {
        refuse_source(fields);
        CreateUserRequest {
            username: fields.required("username"),
            email: fields.required("email"),
            password: fields.required("password"),
            full_name: fields.text_or_empty("full_name"),
            is_admin: false,
        }
    });
    let request = call.request(decode.await?);
    let answer = gateway.clients.administration().create_user(request).await?.into_inner();
    Ok(json::created(gateway.user(&call, present(answer.user, "user")?)))
}

async fn update(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: Params,
    payload: Payload,
) -> Result<Response, ApiError> {
    let attempt = Attempt::of(operation::UPDATE_USER);
    let decode = gateway.decoded(&call, attempt, payload, |fields| {
        refuse_source(fields);
        UpdateUserRequest {
            username: path.name("username"),
            email: fields.optional_word("email"),
            full_name: fields.optional_text("full_name"),
            password: fields.optional_word("password"),
            website: fields.optional_text("website"),
            location: fields.optional_text("location"),
            is_active: fields.optional_flag("active"),
            is_admin: fields.optional_flag("admin"),
            repository_limit: fields.optional_number("max_repo_creation"),
        }
    });
    let request = call.request(decode.await?);
    let answer = gateway.clients.administration().update_user(request).await?.into_inner();
    Ok(json::ok(gateway.user(&call, present(answer.user, "user")?)))
}

fn refuse_source(fields: &mut Fields) {
    if fields.number("source_id") != 0 {
        fields.refuse("source_id", "unknown", "there are local accounts only");
    }
}

async fn remove(State(gateway): State<Gateway>, Signed(call): Signed, path: Params) -> Result<Response, ApiError> {
    let request = call.request(DeleteUserRequest { username: path.name("username") });
    gateway.clients.administration().delete_user(request).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn create_key(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: Params,
    payload: Payload,
) -> Result<Response, ApiError> {
    keys::add(&gateway, &call, payload, Some(path.name("username"))).await
}

async fn create_organization(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: Params,
    payload: Payload,
) -> Result<Response, ApiError> {
    orgs::add(&gateway, &call, payload, Some(path.name("username"))).await
}

async fn create_repository(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: Params,
    payload: Payload,
) -> Result<Response, ApiError> {
    repos::add(&gateway, &call, payload, repos::Owner::AsAdministrator(path.name("username"))).await
}
