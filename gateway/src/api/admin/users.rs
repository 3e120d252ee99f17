//! Administration of accounts, and of other users' keys, organizations, repositories and teams.

use ferrite_api_types::convert::require;
use ferrite_api_types::schema::{Schema, Schemas};
use ferrite_proto::operation;
use ferrite_proto::repo::{
    CreateUserRequest, DeleteUserRequest, ListUsersRequest, SetEmailVerificationRequest, UpdateUserRequest, UserOrder,
};
use serde_json::{Value, json};

use crate::api::access::PermissionCheck;
use crate::api::accounts::accounts::Account;
use crate::api::accounts::public_keys;
use crate::api::call::{Authenticated, operations};
use crate::api::organizations::{organizations, teams};
use crate::api::repositories::repositories;
use crate::http::error::{ApiResult, FieldError};
use crate::http::filters::{Filter, QueryOf, Search, filters};
use crate::http::page::ExtensionList;
use crate::http::path::Params;
use crate::http::query::Query;
use crate::http::request::{
    AccountName, Email, Flag, Integer, Kind, Mistakes, NonEmpty, Optional, OrDefault, RequestBody, Required, Text,
    Unsupported, WithoutEffect, Word, fields,
};
use crate::http::response::{Created, Json, List, NoContent};
use crate::http::routes::{administrator, variant};
use crate::http::words::words;

operations! {
    "/api/v1/admin/users" => get list as operation::LIST_USERS, post create as operation::CREATE_USER;
    "/api/v1/admin/users/{username}" => patch update as operation::UPDATE_USER, delete remove as operation::DELETE_USER;
    "/api/v1/admin/users/{username}/emails/{email}/verified" =>
        put set_email_verification::<true> as variant(operation::SET_EMAIL_VERIFICATION, "Add"),
        delete set_email_verification::<false> as variant(operation::SET_EMAIL_VERIFICATION, "Remove");
    "/api/v1/admin/users/{username}/keys" => post public_keys::create as administrator(operation::CREATE_PUBLIC_KEY);
    "/api/v1/admin/users/{username}/keys/{id}" =>
        delete public_keys::remove as administrator(operation::DELETE_PUBLIC_KEY);
    "/api/v1/admin/users/{username}/orgs" => post organizations::create as administrator(operation::CREATE_ORGANIZATION);
    "/api/v1/admin/users/{username}/repos" => post repositories::create as administrator(operation::CREATE_REPOSITORY);
    "/api/v1/admin/orgs" => get organizations::list_all as administrator(operation::LIST_ALL_ORGANIZATIONS);
    "/api/v1/admin/orgs/{org}/teams" => post teams::create as administrator(operation::CREATE_TEAM);
    "/api/v1/admin/teams/{id}/members" => get teams::members as administrator(operation::LIST_TEAM_MEMBERS);
    "/api/v1/admin/teams/{id}/members/{username}" =>
        put teams::add_member as administrator(operation::ADD_TEAM_MEMBER),
        delete teams::remove_member as administrator(operation::REMOVE_TEAM_MEMBER);
    "/api/v1/admin/teams/{id}/repos/{repo}" =>
        put teams::add_repository as administrator(operation::ADD_TEAM_REPOSITORY),
        delete teams::remove_repository as administrator(operation::REMOVE_TEAM_REPOSITORY);
}

const ONLY_LOCAL: &str = "must be 0: only local accounts are supported";

/// The id of a login source. Only zero, the accounts of this site, is valid.
enum LoginSource {}

impl Kind for LoginSource {
    type Value = ();

    fn read(name: &str, value: Value, mistakes: &mut Mistakes) -> Option<()> {
        match <Integer as Kind>::read(name, value, mistakes)? {
            0 => Some(()),
            _ => mistakes.add(name, "unknown", ONLY_LOCAL),
        }
    }

    fn schema(_: &mut Schemas) -> Schema {
        json!({"const": 0})
    }
}

impl Filter for LoginSource {
    type Value = ();

    fn read(query: &Query, name: &str) -> Result<(), FieldError> {
        match <Integer as Filter>::read(query, name)? {
            None | Some(0) => Ok(()),
            Some(_) => Err(FieldError::new(name, "unknown", ONLY_LOCAL)),
        }
    }

    fn schema() -> Schema {
        json!({"const": 0})
    }
}

/// What every account has, so that it cannot be false.
enum Always {}

impl Kind for Always {
    type Value = ();

    fn read(name: &str, value: Value, mistakes: &mut Mistakes) -> Option<()> {
        match <Flag as Kind>::read(name, value, mistakes)? {
            true => Some(()),
            false => mistakes.add(name, "invalid", "must be true: limit organizations by the quota of the account"),
        }
    }

    fn schema(_: &mut Schemas) -> Schema {
        json!({"const": true})
    }
}

words! {
    /// Everybody sees every account.
    enum UserVisibility: () { "public" = () }
}

words! {
    enum UserSort: UserOrder {
        "oldest" = UserOrder::Oldest,
        "newest" = UserOrder::Newest,
        "alphabetically" = UserOrder::Name,
        "reversealphabetically" = UserOrder::NameDescending,
    }
}

filters! {
    /// Filters of the list of users.
    struct UserListFilters {
        /// A part of the user name or full name, ignoring case and without wildcards.
        q: Search = "ada",
        /// Only the user with this name, ignoring case.
        login_name: Search = "ada",
        /// The login source. Must be 0, because there are only local accounts.
        source_id: LoginSource = 0,
        /// The order. The default is `oldest`.
        sort: Word<UserSort> = "newest",
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
        /// Has no effect: local accounts sign in with their name.
        login_name: WithoutEffect<Text<255>> = "bob",
        /// Has no effect: nobody is asked for a new password.
        must_change_password: WithoutEffect<Flag> = true,
        /// Has no effect: no mail is sent.
        send_notify: WithoutEffect<Flag> = false,
        /// Must be `public`, because everybody sees every account.
        visibility: WithoutEffect<Word<UserVisibility>> = "public",
        /// Must be false, because no account is restricted.
        restricted: Unsupported<Flag> = false,
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
        /// Has no effect: local accounts sign in with their name.
        login_name: WithoutEffect<Text<255>> = "bob",
        /// Has no effect: nobody is asked for a new password.
        must_change_password: WithoutEffect<Flag> = true,
        description: Optional<Text<255>> = "Writes programs.",
        /// Whether the account can sign in.
        active: Optional<Flag> = true,
        /// True disables the account, whatever `active` is. False changes nothing.
        prohibit_login: Optional<Flag> = false,
        /// Whether the account is an administrator of the site.
        admin: Optional<Flag> = false,
        /// The maximum number of repositories of the account; negative for the site's limit.
        max_repo_creation: Optional<Integer> = 500,
        /// Must be true: the quota of the account limits how many organizations a user creates.
        allow_create_organization: WithoutEffect<Always> = true,
        /// Has no effect: no account has hooks on the server.
        allow_git_hook: WithoutEffect<Flag> = false,
        /// Has no effect: no account imports from the disk of the server.
        allow_import_local: WithoutEffect<Flag> = false,
        /// Must be `public`, because everybody sees every account.
        visibility: WithoutEffect<Word<UserVisibility>> = "public",
        /// Must be false, because no account is restricted.
        restricted: Unsupported<Flag> = false,
    }
}

async fn list(
    Authenticated(call): Authenticated,
    query: ExtensionList,
    filters: QueryOf<UserListFilters>,
) -> ApiResult<List<Account>> {
    let check = PermissionCheck::of(operation::LIST_USERS);
    let UserListFilters { q, login_name, source_id: (), sort } = call.after_permission(check, filters.read()).await?;
    let request = ListUsersRequest {
        query: q,
        username: login_name,
        order: sort.unwrap_or_default().into(),
        page: query.page.number,
        page_size: query.page.size,
    };
    let response = call.clients.administration().list_users(call.request(request)).await?.into_inner();
    Ok(query.list(Account::list(response.users, &call)?, response.total_count, &call.links))
}

async fn create(Authenticated(call): Authenticated, body: RequestBody<NewUser>) -> ApiResult<Created<Account>> {
    let check = PermissionCheck::of(operation::CREATE_USER);
    let NewUser {
        source_id: (),
        username,
        email,
        password,
        full_name,
        login_name: (),
        must_change_password: (),
        send_notify: (),
        visibility: (),
        restricted: (),
    } = call.checked_body(check, body).await?;
    let request = call.request(CreateUserRequest { username, email, password, full_name, is_admin: false });
    let response = call.clients.administration().create_user(request).await?.into_inner();
    let user = Account::new(require(response.user, "user")?, &call)?;
    Ok(Created::at(call.links.api(&format!("/users/{}", user.username())), user))
}

async fn update(
    Authenticated(call): Authenticated,
    path: Params,
    body: RequestBody<ChangedUser>,
) -> ApiResult<Json<Account>> {
    let check = PermissionCheck::of(operation::UPDATE_USER);
    let ChangedUser {
        source_id: (),
        email,
        full_name,
        password,
        website,
        location,
        login_name: (),
        must_change_password: (),
        description,
        active,
        prohibit_login,
        admin,
        max_repo_creation,
        allow_create_organization: (),
        allow_git_hook: (),
        allow_import_local: (),
        visibility: (),
        restricted: (),
    } = call.checked_body(check, body).await?;
    let request = call.request(UpdateUserRequest {
        username: path.name("username"),
        email,
        full_name,
        password,
        website,
        location,
        description,
        is_active: if prohibit_login == Some(true) { Some(false) } else { active },
        is_admin: admin,
        repository_limit: max_repo_creation,
    });
    let response = call.clients.administration().update_user(request).await?.into_inner();
    Ok(Json(Account::new(require(response.user, "user")?, &call)?))
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
