//! Operations of administrators of the site: on accounts, and on the keys, organizations, repositories and teams of others.

use ferrite_proto::operation;
use ferrite_proto::repo::{CreateUserRequest, DeleteUserRequest, SetEmailVerificationRequest, UpdateUserRequest};

use crate::api::access::PermissionCheck;
use crate::api::accounts::public_keys;
use crate::api::call::{Authenticated, routes};
use crate::api::organizations::{organizations, teams};
use crate::api::repositories::repositories;
use crate::dto::require;
use crate::http::body::JsonBody;
use crate::http::error::ApiResult;
use crate::http::fields::FieldReader;
use crate::http::json;
use crate::http::path::Params;
use crate::http::routes::administrator;

routes! {
    "/api/v1/admin/users" => post create as operation::CREATE_USER;
    "/api/v1/admin/users/{username}" => patch update as operation::UPDATE_USER, delete remove as operation::DELETE_USER;
    "/api/v1/admin/users/{username}/emails/{email}/verified" =>
        put set_email_verification::<true> as operation::SET_EMAIL_VERIFICATION,
        delete set_email_verification::<false> as operation::SET_EMAIL_VERIFICATION;
    "/api/v1/admin/users/{username}/keys" => post public_keys::create as administrator(operation::CREATE_PUBLIC_KEY);
    "/api/v1/admin/users/{username}/orgs" => post organizations::create as administrator(operation::CREATE_ORGANIZATION);
    "/api/v1/admin/users/{username}/repos" => post repositories::create as administrator(operation::CREATE_REPOSITORY);
    "/api/v1/admin/orgs/{org}/teams" => post teams::create as administrator(operation::CREATE_TEAM);
    "/api/v1/admin/teams/{id}/members" => get teams::members as administrator(operation::LIST_TEAM_MEMBERS);
    "/api/v1/admin/teams/{id}/members/{username}" =>
        put teams::add_member as administrator(operation::ADD_TEAM_MEMBER),
        delete teams::remove_member as administrator(operation::REMOVE_TEAM_MEMBER);
    "/api/v1/admin/teams/{id}/repos/{repo}" =>
        put teams::add_repository as administrator(operation::ADD_TEAM_REPOSITORY),
        delete teams::remove_repository as administrator(operation::REMOVE_TEAM_REPOSITORY);
}

async fn create(Authenticated(call): Authenticated, body: JsonBody) -> ApiResult {
    let check = PermissionCheck::of(operation::CREATE_USER);
    let decode = call.decode_body(check, body, |fields| {
        refuse_login_source(fields);
        CreateUserRequest {
            username: fields.required_non_empty("username"),
            email: fields.required_non_empty("email"),
            password: fields.required_non_empty("password"),
            full_name: fields.text_or_empty("full_name"),
            is_admin: false,
        }
    });
    let request = call.request(decode.await?);
    let response = call.clients.administration().create_user(request).await?.into_inner();
    Ok(json::created(call.user(require(response.user, "user")?)))
}

async fn update(Authenticated(call): Authenticated, path: Params, body: JsonBody) -> ApiResult {
    let check = PermissionCheck::of(operation::UPDATE_USER);
    let decode = call.decode_body(check, body, |fields| {
        refuse_login_source(fields);
        UpdateUserRequest {
            username: path.name("username"),
            email: fields.optional_non_empty("email"),
            full_name: fields.optional_text("full_name"),
            password: fields.optional_non_empty("password"),
            website: fields.optional_text("website"),
            location: fields.optional_text("location"),
            is_active: fields.optional_flag("active"),
            is_admin: fields.optional_flag("admin"),
            repository_limit: fields.optional_number("max_repo_creation"),
        }
    });
    let request = call.request(decode.await?);
    let response = call.clients.administration().update_user(request).await?.into_inner();
    Ok(json::ok(call.user(require(response.user, "user")?)))
}

fn refuse_login_source(fields: &mut FieldReader) {
    if fields.number("source_id") != 0 {
        fields.add_error("source_id", "unknown", "there are local accounts only");
    }
}

async fn remove(Authenticated(call): Authenticated, path: Params) -> ApiResult {
    let request = call.request(DeleteUserRequest { username: path.name("username") });
    call.clients.administration().delete_user(request).await?;
    Ok(json::no_content())
}

async fn set_email_verification<const IS_VERIFIED: bool>(
    Authenticated(call): Authenticated,
    path: Params,
) -> ApiResult {
    let (username, email) = (path.name("username"), path.name("email"));
    let request = call.request(SetEmailVerificationRequest { username, email, is_verified: IS_VERIFIED });
    call.clients.administration().set_email_verification(request).await?;
    Ok(json::no_content())
}
