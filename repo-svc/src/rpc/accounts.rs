//! Users and their access tokens.

use std::collections::HashMap;

use ferrite_core::id_or_name::IdOrName;
use ferrite_core::page::Page;
use ferrite_core::timestamp;
use ferrite_proto::Scope;
use ferrite_proto::error::FieldViolation;
use ferrite_proto::id::RepositoryId;
use ferrite_proto::repo::account_service_server::AccountService;
use ferrite_proto::repo::{self, *};
use ferrite_rpc::auth::Caller;
use rand::TryRngCore;
use rand::rngs::OsRng;
use tonic::Request;

use super::authorized::Authorized;
use super::dispatch::authorized_service;
use super::lookup::{self, TokenOwner};
use super::{change, encode};
use crate::access::Viewer;
use crate::error::RepoError;
use crate::model::{
    Email, RepositoryPath, SearchText, Title, User, Violations, lookup_key, parse_expiry, parse_scopes,
};
use crate::state::AppState;
use crate::store::{
    AccountDetails, AccountQuery, Action, DetailedAccount, Entry, NewToken, RepositoryName, Target, TokenRow, append,
};

authorized_service!(AccountService {
    get_authenticated_user(GetAuthenticatedUserRequest) -> GetAuthenticatedUserResponse;
    get_user(GetUserRequest) -> GetUserResponse;
    get_users(GetUsersRequest) -> GetUsersResponse;
    search_users(SearchUsersRequest) -> SearchUsersResponse;
    create_access_token(CreateAccessTokenRequest) -> CreateAccessTokenResponse;
    list_access_tokens(ListAccessTokensRequest) -> ListAccessTokensResponse;
    delete_access_token(DeleteAccessTokenRequest) -> DeleteAccessTokenResponse;
});

const MAX_USERS_PER_REQUEST: usize = 1_000;
const MAX_SEARCH_PAGE_SIZE: i32 = 50;

async fn get_authenticated_user(
    _: &AppState,
    authorized: Authorized,
    _: Request<GetAuthenticatedUserRequest>,
) -> Result<GetAuthenticatedUserResponse, RepoError> {
    // Never stale: changing an account revokes the cached identities of its tokens.
    Ok(GetAuthenticatedUserResponse { user: Some(encode::identity(authorized.identity()?)) })
}

async fn get_user(
    state: &AppState,
    authorized: Authorized,
    request: Request<GetUserRequest>,
) -> Result<GetUserResponse, RepoError> {
    let viewer = authorized.viewer();
    let found = state.accounts.find_detailed(&request.get_ref().username, viewer).await?;
    let DetailedAccount { user, details } = found.ok_or(RepoError::UserNotFound)?;
    let mut shown = encode::user(user, viewer);
    if !shown.is_organization {
        shown.profile = Some(encode_profile(&details));
        shown.details = viewer.is_site_administrator().then(|| encode_details(&details));
    }
    Ok(GetUserResponse { user: Some(shown) })
}

pub(super) fn encode_profile(row: &AccountDetails) -> UserProfile {
    UserProfile { website: row.website.clone(), location: row.location.clone(), description: row.description.clone() }
}

pub(super) fn encode_details(row: &AccountDetails) -> repo::AccountDetails {
    repo::AccountDetails {
        is_active: row.is_active,
        website: row.website.clone(),
        location: row.location.clone(),
        create_time: Some(timestamp(row.created_us)),
    }
}

/// Adds the details and profiles of users if `viewer` is an administrator of the site. Reads them with one query.
pub(super) async fn with_details(
    state: &AppState,
    mut users: Vec<repo::User>,
    viewer: &Viewer,
) -> Result<Vec<repo::User>, RepoError> {
    let ids: Vec<i64> = users.iter().filter(|user| !user.is_organization).map(|user| user.id).collect();
    if ids.is_empty() || !viewer.is_site_administrator() {
        return Ok(users);
    }
    let rows = state.accounts.details(&ids).await?;
    let found: HashMap<i64, AccountDetails> = rows.into_iter().map(|row| (row.id, row)).collect();
    for user in &mut users {
        let row = found.get(&user.id);
        user.details = row.map(encode_details);
        user.profile = row.map(encode_profile);
    }
    Ok(users)
}

async fn get_users(
    state: &AppState,
    authorized: Authorized,
    request: Request<GetUsersRequest>,
) -> Result<GetUsersResponse, RepoError> {
    let with_emails = request.get_ref().with_emails && Caller::of(&request).service.is_some();
    let request = request.into_inner();
    if request.user_ids.len() + request.emails.len() + request.usernames.len() > MAX_USERS_PER_REQUEST {
        return Err(RepoError::field("user_ids", "too_long", "a request can look up at most 1,000 users"));
    }
    // Skip invalid names and addresses: no account has one, and PostgreSQL rejects text with NUL.
    let query = AccountQuery {
        ids: request.user_ids,
        name_keys: request.usernames.iter().filter_map(|name| lookup_key(name)).collect(),
        email_keys: request
            .emails
            .iter()
            .filter(|email| is_possible_email(email))
            .map(|email| Email::lookup_key(email))
            .collect(),
    };
    let found = state.accounts.find_many(query, authorized.viewer()).await?;
    let owner = |email: &String| found.email_owners.get(&Email::lookup_key(email)).copied();
    let user_id_by_email = request.emails.iter().filter_map(|email| Some((email.clone(), owner(email)?))).collect();
    let encode = |user: &User| {
        let shown = encode::user(user.clone(), authorized.viewer());
        if with_emails { repo::User { email: user.email.clone(), ..shown } } else { shown }
    };
    let users = found.users.iter().map(encode).collect();
    Ok(GetUsersResponse { users, user_id_by_email })
}

fn is_possible_email(email: &str) -> bool {
    !email.is_empty() && email.len() <= 1024 && !email.contains('\0')
}

async fn search_users(
    state: &AppState,
    authorized: Authorized,
    request: Request<SearchUsersRequest>,
) -> Result<SearchUsersResponse, RepoError> {
    let (request, viewer) = (request.into_inner(), authorized.viewer());
    let page = Page::nearest(request.page, request.page_size, MAX_SEARCH_PAGE_SIZE);
    let (rows, total_count) = if request.user_id != 0 {
        find_user(state, request.user_id, viewer, page).await?
    } else {
        let text = SearchText::parse_name(&request.query, "q")?;
        let Some(text) = text else { return Ok(SearchUsersResponse::default()) };
        state.accounts.search(&text, page).await?
    };
    let users = with_details(state, encode::users(rows, viewer), viewer).await?;
    Ok(SearchUsersResponse { users, total_count })
}

/// Returns a page of the list that has only this user, and the length of that list.
async fn find_user(state: &AppState, id: i64, viewer: &Viewer, page: Page) -> Result<(Vec<User>, i64), RepoError> {
    let found = state.accounts.find_many(AccountQuery { ids: vec![id], ..AccountQuery::default() }, viewer).await?;
    let users: Vec<User> = found.users.iter().filter(|user| !user.is_organization).cloned().collect();
    let total = i64::from(!users.is_empty());
    Ok((if page.offset() == 0 { users } else { Vec::new() }, total))
}

/// Creates a token. Its text is in the response and stored nowhere, so the request takes no
/// idempotency key: that would store the response.
async fn create_access_token(
    state: &AppState,
    authorized: Authorized,
    request: Request<CreateAccessTokenRequest>,
) -> Result<CreateAccessTokenResponse, RepoError> {
    let mut request = request.into_inner();
    let owner =
        lookup::token_owner(state, request.credential.take(), authorized.client_address(), &request.username).await?;
    let (new, names) = check_token(state, &request, &Viewer::of(Some(owner.identity()))).await?;
    state.creation_limit.count(owner.identity()).await?;
    let value = new_token()?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    owner.confirm(state, &mut tx).await?;
    let row = state.tokens.insert(&mut tx, owner.id(), &new, &value, now).await?;
    let row = row.ok_or_else(|| RepoError::TokenExists(new.name.as_str().to_owned()))?;
    let entry = Entry {
        actor: &authorized.actor_as(owner.identity()),
        action: Action::TokenCreate,
        target: Target::user(owner.id(), &owner.identity().username),
        details: &token_details(&row),
    };
    append(&mut tx, entry, now).await?;
    tx.commit().await?;
    Ok(CreateAccessTokenResponse { token: Some(encode::token(row, &names)), value })
}

/// Returns the token to create and the names of the repositories it is limited to.
async fn check_token(
    state: &AppState,
    request: &CreateAccessTokenRequest,
    viewer: &Viewer,
) -> Result<(NewToken, HashMap<i64, RepositoryName>), RepoError> {
    let mut violations = Violations::default();
    let expire = request.expire_time.as_ref().map(|time| (time.seconds, time.nanos));
    let name = violations.take(Title::parse(&request.name, "name"));
    let is_limited = !request.repositories.is_empty();
    let scopes = violations.take(parse_scopes(&request.scopes, is_limited, "scopes"));
    let expire_us = violations.take(parse_expiry(expire, state.clock.now_us(), "expires_at"));
    let found = violations.take(find_repositories(state, &request.repositories, viewer).await?);
    let (Some(name), Some(scopes), Some(expire_us), Some(found)) = (name, scopes, expire_us, found) else {
        return Err(violations.into_error());
    };
    let ids = found.iter().map(|row| RepositoryId(row.id)).collect();
    let only = if found.is_empty() { None } else { Some(ids) };
    let names = found.into_iter().map(|row| (row.id, row)).collect();
    Ok((NewToken { name, scopes, expire_us, only }, names))
}

/// Returns repositories in the order of `texts`. Missing and hidden ones give the same violation.
async fn find_repositories(
    state: &AppState,
    texts: &[String],
    viewer: &Viewer,
) -> Result<Result<Vec<RepositoryName>, FieldViolation>, RepoError> {
    let paths = match RepositoryPath::parse_all(texts, "repositories") {
        Ok(paths) if paths.is_empty() => return Ok(Ok(Vec::new())),
        Ok(paths) => paths,
        Err(violation) => return Ok(Err(violation)),
    };
    let rows = state.repositories.find_paths(&paths, viewer).await?;
    let mut by_key: HashMap<String, RepositoryName> = rows.into_iter().map(|row| (row.key(), row)).collect();
    Ok(paths
        .iter()
        .map(|path| by_key.remove(&path.key()).ok_or_else(|| RepositoryPath::missing(&path.key(), "repositories")))
        .collect())
}

fn token_details(row: &TokenRow) -> [(&'static str, String); 4] {
    let scopes: Vec<_> = row.scopes().iter().map(Scope::as_str).collect();
    let expires = if row.expire_us > 0 { timestamp(row.expire_us).to_string() } else { "never".to_owned() };
    let repositories = row.only().map_or_else(|| "all".to_owned(), |only| only.len().to_string());
    [("name", row.name.clone()), ("scopes", scopes.join(" ")), ("expires", expires), ("repositories", repositories)]
}

/// 160 random bits from the operating system as 40 lower-case hexadecimal digits.
pub(super) fn new_token() -> Result<String, RepoError> {
    let mut bytes = [0; 20];
    OsRng.try_fill_bytes(&mut bytes).map_err(|error| RepoError::Hashing(error.to_string()))?;
    Ok(hex::encode(bytes))
}

async fn list_access_tokens(
    state: &AppState,
    authorized: Authorized,
    request: Request<ListAccessTokensRequest>,
) -> Result<ListAccessTokensResponse, RepoError> {
    let request = request.into_inner();
    let owner = lookup::token_owner(state, request.credential, authorized.client_address(), &request.username).await?;
    let page = lookup::page(request.page, request.page_size);
    let (rows, total_count) = state.tokens.list(owner.id(), page).await?;
    let ids = rows.iter().filter_map(TokenRow::only).flatten().collect();
    let names = state.repositories.names(&ids, &Viewer::of(Some(owner.identity()))).await?;
    Ok(ListAccessTokensResponse {
        tokens: rows.into_iter().map(|row| encode::token(row, &names)).collect(),
        total_count,
    })
}

async fn delete_access_token(
    state: &AppState,
    authorized: Authorized,
    request: Request<DeleteAccessTokenRequest>,
) -> Result<DeleteAccessTokenResponse, RepoError> {
    let request = request.into_inner();
    let owner = lookup::token_owner(state, request.credential, authorized.client_address(), &request.username).await?;
    if request.name.is_empty() || request.name.contains('\0') {
        return Err(RepoError::TokenNotFound);
    }
    let (shared, name) = (state.clone(), request.name);
    // Runs in its own task: a request cancelled after its commit must still revoke the cached
    // tokens.
    let task = state
        .life
        .spawn_for_request("delete token", async move { delete_token(&shared, &authorized, &owner, &name).await });
    task.await.unwrap_or(Err(RepoError::Interrupted))
}

async fn delete_token(
    state: &AppState,
    authorized: &Authorized,
    owner: &TokenOwner,
    name: &str,
) -> Result<DeleteAccessTokenResponse, RepoError> {
    let mut tx = state.db.begin().await?;
    let deleted =
        state.tokens.delete(&mut tx, owner.id(), IdOrName::new(name)).await?.ok_or(RepoError::TokenNotFound)?;
    let entry = Entry {
        actor: &authorized.actor_as(owner.identity()),
        action: Action::TokenDelete,
        target: Target::user(owner.id(), &owner.identity().username),
        details: &[("name", deleted.name), ("keys", deleted.key_count.to_string())],
    };
    append(&mut tx, entry, state.clock.now_us()).await?;
    tx.commit().await?;
    change::revoke_cached(state.cache.as_ref(), &[deleted.hash]).await;
    Ok(DeleteAccessTokenResponse {})
}
