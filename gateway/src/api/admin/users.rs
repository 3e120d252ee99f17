//! Administration of accounts, and of other users' keys, organizations, repositories and teams.

use ferrite_api_types::User;
use ferrite_api_types::convert::require;
use ferrite_api_types::schema::{Schema, Schemas};
use ferrite_proto::operation;
use ferrite_proto::repo::{CreateUserRequest, DeleteUserRequest, SetEmailVerificationRequest, UpdateUserRequest};
use serde_json::{Value, json};

use crate::api::access::PermissionCheck;
use crate::api::accounts::public_keys;
use crate::api::call::{Authenticated, operations};
use crate::api::organizations::{organizations, teams};
use crate::api::repositories::repositories;
use crate::http::error::ApiResult;
use crate::http::path::Params;
use crate::http::request::{
    AccountName, Email, Flag, Integer, Kind, Mistakes, NonEmpty, Optional, OrDefault, RequestBody, Required, Text,
    fields,
};
use crate::http::response::{Created, Json, NoContent};
use crate::http::routes::{administrator, variant};

operations! {
    "/api/v1/admin/users" => post create as operation::CREATE_USER;
    "/api/v1/admin/users/{username}" => patch update as operation::UPDATE_USER, delete remove as operation::DELETE_USER;
    "/api/v1/admin/users/{username}/emails/{email}/verified" =>
        put set_email_verification::<true> as variant(operation::SET_EMAIL_VERIFICATION, "Add"),
        delete set_email_verification::<false> as variant(operation::SET_EMAIL_VERIFICATION, "Remove");
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

/// The id of a login source. Only zero, the accounts of this site, is valid.
enum LoginSource {}

impl Kind for LoginSource {
    type Value = ();

    fn read(name: &str, value: Value, mistakes: &mut Mistakes) -> Option<()> {
        match <Integer as Kind>::read(name, value, mistakes)? {
            0 => Some(()),
            _ => mistakes.add(name, "unknown", "must be 0: only local accounts are supported"),
        }
    }

    fn schema(_: &mut Schemas) -> Schema {
        json!({"const": 0})
    }
}

fields! {
    /// A new account.
    struct NewUser {
        /// The login source. Must be 0, because there are only local accounts.
        source_id: OrDefault<LoginSource> = 0,
        username: Required<AccountName> = "bob",
        email: Required<Email> = "bob@example.com",
        password: Required<Text<255, 8>> = "correct horse battery staple",
        full_name: OrDefault<Text<100>> = "Bob Smith",
    }
}

fields! {
    /// Changes of an account.
    struct ChangedUser {
        /// The login source. Must be 0, because there are only local accounts.
        source_id: OrDefault<LoginSource> = 0,
        /// The primary e-mail address. An empty one changes nothing.
        email: NonEmpty<Text<254>> = "bob@example.com",
        full_name: Optional<Text<100>> = "Bob Smith",
        /// The password, 8 to 255 characters. An empty one changes nothing.
        password: NonEmpty<Text<255>> = "correct horse battery staple",
        website: Optional<Text<50>> = "https://example.com",
        location: Optional<Text<50>> = "Berlin",
        /// Whether the account can sign in.
        active: Optional<Flag> = true,
        /// Whether the account is an administrator of the site.
        admin: Optional<Flag> = false,
        /// The maximum number of repositories of the account; negative for the site's limit.
        max_repo_creation: Optional<Integer> = 500,
    }
}

async fn create(Authenticated(call): Authenticated, body: RequestBody<NewUser>) -> ApiResult<Created<User>> {
    let check = PermissionCheck::of(operation::CREATE_USER);
    let NewUser { source_id: (), username, email, password, full_name } = call.checked_body(check, body).await?;
    let request = call.request(CreateUserRequest { username, email, password, full_name, is_admin: false });
    let response = call.clients.administration().create_user(request).await?.into_inner();
    let user = call.user(require(response.user, "user")?);
    Ok(Created::at(call.links.api(&format!("/users/{}", user.username)), user))
}

async fn update(
    Authenticated(call): Authenticated,
    path: Params,
    body: RequestBody<ChangedUser>,
) -> ApiResult<Json<User>> {
    let check = PermissionCheck::of(operation::UPDATE_USER);
    let ChangedUser { source_id: (), email, full_name, password, website, location, active, admin, max_repo_creation } =
        call.checked_body(check, body).await?;
    let request = call.request(UpdateUserRequest {
        username: path.name("username"),
        email,
        full_name,
        password,
        website,
        location,
        is_active: active,
        is_admin: admin,
        repository_limit: max_repo_creation,
    });
    let response = call.clients.administration().update_user(request).await?.into_inner();
    Ok(Json(call.user(require(response.user, "user")?)))
}

async fn remove(Authenticated(call): Authenticated, path: Params) -> ApiResult<NoContent> {
    let request = call.request(DeleteUserRequest { username: path.name("username") });
    call.clients.administration().delete_user(request).await?;
    Ok(NoContent)
}

async fn set_email_verification<const IS_VERIFIED: bool>(
    Authenticated(call): Authenticated,
    path: Params,
) -> ApiResult<NoContent> {
    let (username, email) = (path.name("username"), path.name("email"));
    let request = call.request(SetEmailVerificationRequest { username, email, is_verified: IS_VERIFIED });
    call.clients.administration().set_email_verification(request).await?;
    Ok(NoContent)
}
