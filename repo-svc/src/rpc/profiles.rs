//! E-mail addresses of accounts, and follows.

use ferrite_core::page::Page;
use ferrite_db::idempotency::{IdempotencyKey, once, once_or_rebuild};
use ferrite_proto::repo::profile_service_server::ProfileService;
use ferrite_proto::repo::*;
use ferrite_rpc::version::{self, is_conditional};
use tonic::Request;

use super::authorized::Authorized;
use super::dispatch::authorized_service;
use super::{change, encode, lookup, versions};
use crate::error::RepoError;
use crate::model::{Email, Violations};
use crate::state::AppState;
use crate::store::{self, Action, EmailRow, FollowDirection, Target, lock_own_user, token_hashes};

authorized_service!(ProfileService {
    list_emails(ListEmailsRequest) -> ListEmailsResponse;
    add_emails(AddEmailsRequest) -> AddEmailsResponse;
    set_primary_email(SetPrimaryEmailRequest) -> SetPrimaryEmailResponse;
    delete_emails(DeleteEmailsRequest) -> DeleteEmailsResponse;
    list_followers(ListFollowersRequest) -> ListFollowersResponse;
    list_following(ListFollowingRequest) -> ListFollowingResponse;
    is_following(IsFollowingRequest) -> IsFollowingResponse;
    follow_user(FollowUserRequest) -> FollowUserResponse;
    unfollow_user(UnfollowUserRequest) -> UnfollowUserResponse;
});

/// Maximum page size for followers and followed users.
const MAX_FOLLOWS_PAGE_SIZE: i32 = 40;
const MAX_EMAILS_PER_REQUEST: usize = 100;

async fn list_emails(
    state: &AppState,
    authorized: Authorized,
    request: Request<ListEmailsRequest>,
) -> Result<ListEmailsResponse, RepoError> {
    let request = request.into_inner();
    let (user, page) = (authorized.user()?, lookup::page(request.page, request.page_size));
    if version::is_asked() {
        // Read before the page, so that the version is never newer than the page.
        version::tell(&versions::emails(state.profiles.all_emails(user).await?));
    }
    let (rows, total_count) = state.profiles.emails(user, page).await?;
    Ok(ListEmailsResponse { emails: rows.into_iter().map(encode::email).collect(), total_count })
}

async fn add_emails(
    state: &AppState,
    authorized: Authorized,
    request: Request<AddEmailsRequest>,
) -> Result<AddEmailsResponse, RepoError> {
    let key = IdempotencyKey::of(&request, authorized.user()?.0, "AddEmails")?;
    let emails = &request.get_ref().emails;
    // The request contains all of them.
    let rebuild = |_: bool| std::future::ready(check_emails(emails).map(|emails| added_emails(&emails)));
    once_or_rebuild(&state.db, key.as_ref(), rebuild, add(state, emails, &authorized, key.as_ref())).await
}

fn check_emails(emails: &[String]) -> Result<Vec<Email>, RepoError> {
    if emails.is_empty() {
        return Err(RepoError::field("emails", "required", "is required"));
    }
    if emails.len() > MAX_EMAILS_PER_REQUEST {
        return Err(RepoError::field("emails", "too_long", "must have at most 100 addresses"));
    }
    let mut violations = Violations::default();
    let parse = |email: &String| Email::parse(&Email::lookup_key(email), "emails");
    let parsed: Vec<_> = emails.iter().filter_map(|email| violations.take(parse(email))).collect();
    if parsed.len() == emails.len() { Ok(parsed) } else { Err(violations.into_error()) }
}

async fn add(
    state: &AppState,
    emails: &[String],
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<AddEmailsResponse, RepoError> {
    let emails = check_emails(emails)?;
    let identity = authorized.identity()?;
    state.creation_limit.count(identity).await?;
    let (user, now) = (authorized.user()?, state.clock.now_us());
    let mut tx = state.db.begin().await?;
    state.profiles.add_emails(&mut tx, user, &emails, now).await?;
    for email in &emails {
        let (target, details) = (Target::user(user, &identity.username), [("email", email.as_str().to_owned())]);
        change::record(&mut tx, authorized, Action::EmailAdd, target, &details, now).await?;
    }
    change::commit_with_subject(tx, key, added_emails(&emails), &true, now).await
}

fn added_emails(emails: &[Email]) -> AddEmailsResponse {
    let row = |email: &Email| EmailRow { email: email.as_str().to_owned(), is_primary: false, is_verified: false };
    AddEmailsResponse { emails: emails.iter().map(row).map(encode::email).collect() }
}

/// Changes the address that commits through the API have. Cached identities of the user's tokens
/// have the former one.
async fn set_primary_email(
    state: &AppState,
    authorized: Authorized,
    request: Request<SetPrimaryEmailRequest>,
) -> Result<SetPrimaryEmailResponse, RepoError> {
    let key = IdempotencyKey::of(&request, authorized.user()?.0, "SetPrimaryEmail")?;
    let (email, shared) = (request.into_inner().email, state.clone());
    // Runs in its own task: a request cancelled after its commit must still revoke the cached
    // tokens.
    let task = state.life.spawn_for_request("set primary email", async move {
        once(&shared.db, key.as_ref(), set_primary(&shared, &email, &authorized, key.as_ref())).await
    });
    task.await.unwrap_or(Err(RepoError::Interrupted))
}

async fn set_primary(
    state: &AppState,
    email: &str,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<SetPrimaryEmailResponse, RepoError> {
    let email = Email::parse(email, "email")?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    let before = lock_own_user(&mut tx, authorized.identity()?).await?;
    if is_conditional() {
        let emails = state.profiles.lock_emails(&mut tx, before.id()).await?;
        tx.require_version(Some(&versions::emails(emails)))?;
    }
    let made = store::set_primary_email(&mut tx, before.id(), &email.key()).await?;
    let made = made.ok_or_else(|| RepoError::field("email", "invalid", "must be a verified address of the account"))?;
    let mut hashes = Vec::new();
    if made != before.email {
        hashes = token_hashes(&mut tx, before.id()).await?;
        let (target, details) = (Target::user(before.id(), &before.name), [("fields", "email".to_owned())]);
        change::record(&mut tx, authorized, Action::UserUpdate, target, &details, now).await?;
    }
    let row = EmailRow { email: made, is_primary: true, is_verified: true };
    let response = SetPrimaryEmailResponse { email: Some(encode::email(row)) };
    let response = change::commit(tx, key, response, now).await?;
    change::revoke_cached(state.cache.as_ref(), &hashes).await;
    Ok(response)
}

async fn delete_emails(
    state: &AppState,
    authorized: Authorized,
    request: Request<DeleteEmailsRequest>,
) -> Result<DeleteEmailsResponse, RepoError> {
    let emails = request.into_inner().emails;
    if emails.len() > MAX_EMAILS_PER_REQUEST {
        return Err(RepoError::field("emails", "too_long", "must have at most 100 addresses"));
    }
    // Skip invalid addresses: no account has one, and PostgreSQL rejects text with NUL.
    let keys: Vec<String> =
        emails.iter().filter_map(|email| Email::parse(email, "emails").ok()).map(|email| email.key()).collect();
    if keys.is_empty() && !is_conditional() {
        return Ok(DeleteEmailsResponse {});
    }
    let (user, now) = (authorized.user()?, state.clock.now_us());
    let mut tx = state.db.begin().await?;
    if is_conditional() {
        let before = state.profiles.lock_emails(&mut tx, user).await?;
        tx.require_version(Some(&versions::emails(before)))?;
        if keys.is_empty() {
            return Ok(DeleteEmailsResponse {});
        }
    }
    let removed = state.profiles.remove_emails(&mut tx, user, &keys).await?;
    let removed = removed
        .ok_or_else(|| RepoError::field("emails", "invalid", "must not include the primary address of the account"))?;
    for email in removed {
        let target = Target::user(user, &authorized.identity()?.username);
        change::record(&mut tx, &authorized, Action::EmailRemove, target, &[("email", email)], now).await?;
    }
    tx.commit().await?;
    Ok(DeleteEmailsResponse {})
}

async fn list_followers(
    state: &AppState,
    authorized: Authorized,
    request: Request<ListFollowersRequest>,
) -> Result<ListFollowersResponse, RepoError> {
    let request = request.into_inner();
    let user = lookup::user_or_caller(state, &authorized, &request.username).await?;
    let page = Page::nearest(request.page, request.page_size, MAX_FOLLOWS_PAGE_SIZE);
    let (rows, total_count) = state.profiles.follows(user, FollowDirection::Followers, page).await?;
    Ok(ListFollowersResponse { users: encode::users(rows, authorized.viewer()), total_count })
}

async fn list_following(
    state: &AppState,
    authorized: Authorized,
    request: Request<ListFollowingRequest>,
) -> Result<ListFollowingResponse, RepoError> {
    let request = request.into_inner();
    let user = lookup::user_or_caller(state, &authorized, &request.username).await?;
    let page = Page::nearest(request.page, request.page_size, MAX_FOLLOWS_PAGE_SIZE);
    let (rows, total_count) = state.profiles.follows(user, FollowDirection::Following, page).await?;
    Ok(ListFollowingResponse { users: encode::users(rows, authorized.viewer()), total_count })
}

async fn is_following(
    state: &AppState,
    authorized: Authorized,
    request: Request<IsFollowingRequest>,
) -> Result<IsFollowingResponse, RepoError> {
    let request = request.into_inner();
    let follower = lookup::user_or_caller(state, &authorized, &request.username).await?;
    let followed = lookup::user(state, &request.target).await?.id;
    Ok(IsFollowingResponse { is_following: state.profiles.is_following(follower, followed).await? })
}

async fn follow_user(
    state: &AppState,
    authorized: Authorized,
    request: Request<FollowUserRequest>,
) -> Result<FollowUserResponse, RepoError> {
    let followed = lookup::user(state, &request.get_ref().username).await?.id;
    let follower = authorized.user()?;
    if followed == follower {
        return Err(RepoError::field("username", "invalid", "you cannot follow yourself"));
    }
    state.profiles.follow(follower, followed, state.clock.now_us()).await?;
    Ok(FollowUserResponse {})
}

async fn unfollow_user(
    state: &AppState,
    authorized: Authorized,
    request: Request<UnfollowUserRequest>,
) -> Result<UnfollowUserResponse, RepoError> {
    let followed = lookup::user(state, &request.get_ref().username).await?.id;
    state.profiles.unfollow(authorized.user()?, followed).await?;
    Ok(UnfollowUserResponse {})
}
