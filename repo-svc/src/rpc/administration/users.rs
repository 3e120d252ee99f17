//! Accounts and the verification of their addresses, for site administrators.

use ferrite_core::Secret;
use ferrite_core::page::Page;
use ferrite_core::timestamp;
use ferrite_db::idempotency::{IdempotencyKey, once};
use ferrite_proto::repo::{
    self, CreateUserRequest, CreateUserResponse, DeleteUserRequest, DeleteUserResponse, ListUsersRequest,
    ListUsersResponse, SetEmailVerificationRequest, SetEmailVerificationResponse, UpdateUserRequest,
    UpdateUserResponse, UserOrder,
};
use tonic::Request;

use crate::error::RepoError;
use crate::model::{
    CheckedUser, Description, Email, FullName, NewUser, Password, SearchText, User, Violations, lookup_key,
    parse_location, parse_user_website,
};
use crate::rpc::authorized::Authorized;
use crate::rpc::{accounts, change, dispatch, encode, lost_rights};
use crate::state::AppState;
use crate::store::{
    self, AccountFilter, AccountOrder, Action, Target, UserRecord, change_user, lock_administrators, lock_user,
    token_hashes, unverify_email, verify_email,
};

const MAX_PAGE_SIZE: i32 = 100;

pub(super) async fn list_users(
    state: &AppState,
    authorized: Authorized,
    request: Request<ListUsersRequest>,
) -> Result<ListUsersResponse, RepoError> {
    let request = request.into_inner();
    let order = match UserOrder::try_from(request.order) {
        Ok(UserOrder::Unspecified | UserOrder::Oldest) => AccountOrder::Oldest,
        Ok(UserOrder::Newest) => AccountOrder::Newest,
        Ok(UserOrder::Name) => AccountOrder::Name,
        Ok(UserOrder::NameDescending) => AccountOrder::NameDescending,
        Err(_) => return Err(RepoError::field("order", "unknown", "must be a known order")),
    };
    let text = SearchText::parse_name(&request.query, "q")?;
    let name_key = match request.username.as_str() {
        "" => None,
        name => match lookup_key(name) {
            Some(key) => Some(key),
            None => return Ok(ListUsersResponse::default()),
        },
    };
    let page = Page::nearest(request.page, request.page_size, MAX_PAGE_SIZE);
    let (rows, total_count) = state.accounts.list(&AccountFilter { name_key, text }, order, page).await?;
    let viewer = authorized.viewer();
    let users = accounts::with_details(state, encode::users(rows, viewer), viewer).await?;
    Ok(ListUsersResponse { users, total_count })
}

pub(super) async fn create_user(
    state: &AppState,
    authorized: Authorized,
    request: Request<CreateUserRequest>,
) -> Result<CreateUserResponse, RepoError> {
    let redact = |request: &mut CreateUserRequest, fingerprint: &dyn Fn(&str) -> String| {
        request.password = fingerprint(&request.password);
    };
    let key = IdempotencyKey::of_redacted(&request, authorized.user()?.0, "CreateUser", &state.sealer, redact)?;
    let request = request.into_inner();
    let new = NewUser {
        username: request.username,
        email: request.email,
        password: Secret::new(request.password),
        full_name: request.full_name,
        is_admin: request.is_admin,
    };
    once(&state.db, key.as_ref(), create(state, &new, &authorized, key.as_ref())).await
}

async fn create(
    state: &AppState,
    new: &NewUser,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<CreateUserResponse, RepoError> {
    let checked = CheckedUser::check(new)?;
    let hash = state.passwords.hash(&checked.password).await?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    let user = state.accounts.insert(&mut tx, &checked, &hash, now).await?;
    let (target, details) = (Target::user(user.id, &user.username), [("admin", user.is_admin.to_string())]);
    change::record(&mut tx, authorized, Action::UserCreate, target, &details, now).await?;
    let details =
        repo::AccountDetails { is_active: true, create_time: Some(timestamp(now)), ..repo::AccountDetails::default() };
    let profile = Some(repo::UserProfile::default());
    let shown = repo::User { details: Some(details), profile, ..encode::user(user, authorized.viewer()) };
    let response = CreateUserResponse { user: Some(shown) };
    change::commit(tx, key, response, now).await
}

/// Changes an account. Disabling it revokes its cached identities in other processes.
pub(super) async fn update_user(
    state: &AppState,
    authorized: Authorized,
    mut request: Request<UpdateUserRequest>,
) -> Result<UpdateUserResponse, RepoError> {
    let redact = |request: &mut UpdateUserRequest, fingerprint: &dyn Fn(&str) -> String| {
        request.password = request.password.as_deref().map(fingerprint);
    };
    let key = IdempotencyKey::of_redacted(&request, authorized.user()?.0, "UpdateUser", &state.sealer, redact)?;
    let password = request.get_mut().password.take().map(Secret::new);
    let (request, shared) = (request.into_inner(), state.clone());
    // Runs in its own task: a request cancelled after its commit must still revoke the cached
    // tokens.
    let task = state.life.spawn_for_request("update user", async move {
        once(&shared.db, key.as_ref(), update(&shared, request, password, &authorized, key.as_ref())).await
    });
    task.await.unwrap_or(Err(RepoError::Interrupted))
}

/// `None` keeps a field.
#[derive(Debug)]
struct UserChange {
    email: Option<Email>,
    full_name: Option<FullName>,
    website: Option<String>,
    location: Option<String>,
    description: Option<Description>,
    password: Option<Password>,
    is_active: Option<bool>,
    is_admin: Option<bool>,
    repository_limit: Option<i64>,
}

impl UserChange {
    fn check(request: &UpdateUserRequest, password: Option<&Secret>) -> Result<Self, RepoError> {
        let mut violations = Violations::default();
        // Existing clients send an empty password to keep the old one.
        let password = password.filter(|password| !password.expose().is_empty());
        let password = password.map(|password| Password::parse(password, "password"));
        let parsed = (
            violations.take_optional(request.email.as_deref(), "email", Email::parse),
            violations.take_optional(request.full_name.as_deref(), "full_name", FullName::parse),
            violations.take_optional(request.website.as_deref(), "website", parse_user_website),
            violations.take_optional(request.location.as_deref(), "location", parse_location),
            violations.take_optional(request.description.as_deref(), "description", Description::parse_lines),
            violations.take(password.transpose()),
        );
        let (Some(email), Some(full_name), Some(website), Some(location), Some(description), Some(password)) = parsed
        else {
            return Err(violations.into_error());
        };
        Ok(Self {
            email,
            full_name,
            website,
            location,
            description,
            password,
            is_active: request.is_active,
            is_admin: request.is_admin,
            repository_limit: request.repository_limit,
        })
    }

    fn may_remove_administrator(&self) -> bool {
        self.is_active == Some(false) || self.is_admin == Some(false)
    }

    /// Whether the change may revoke access, if the account is active now.
    fn may_take_access_away(&self, active: Option<&User>) -> bool {
        active.is_some_and(|user| self.is_active == Some(false) || (self.is_admin == Some(false) && user.is_admin))
    }

    fn apply(&self, before: &UserRecord) -> UserRecord {
        let text = |new: Option<&str>, old: &String| new.map_or_else(|| old.clone(), str::to_owned);
        UserRecord {
            full_name: text(self.full_name.as_ref().map(FullName::as_str), &before.full_name),
            email: text(self.email.as_ref().map(Email::as_str), &before.email),
            website: text(self.website.as_deref(), &before.website),
            location: text(self.location.as_deref(), &before.location),
            description: text(self.description.as_ref().map(Description::as_str), &before.description),
            is_active: self.is_active.unwrap_or(before.is_active),
            is_admin: self.is_admin.unwrap_or(before.is_admin),
            repository_limit: match self.repository_limit {
                Some(limit) => (limit >= 0).then_some(limit),
                None => before.repository_limit,
            },
            ..before.clone()
        }
    }
}

/// Whether a change of these fields only revokes access.
fn takes_only_access_away(before: &UserRecord, fields: &[&str]) -> bool {
    let is_less = |field: &&str| match *field {
        "is_active" => before.is_active,
        "is_admin" => before.is_admin,
        _ => false,
    };
    // The role of a disabled account grants nothing.
    before.is_active && !fields.is_empty() && fields.iter().all(is_less)
}

async fn update(
    state: &AppState,
    request: UpdateUserRequest,
    password: Option<Secret>,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<UpdateUserResponse, RepoError> {
    let requested = UserChange::check(&request, password.as_ref())?;
    let name_key = lookup_key(&request.username).ok_or(RepoError::UserNotFound)?;
    let hash = match &requested.password {
        Some(password) => Some(state.passwords.hash(password).await?),
        None => None,
    };
    if requested.may_remove_administrator() {
        let active = state.accounts.find_active_user(&request.username).await?;
        dispatch::refuse_at_commit_if(requested.may_take_access_away(active.as_ref()));
    }
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    if requested.may_remove_administrator() {
        lock_administrators(&mut tx).await?;
    }
    let before = lock_user(&mut tx, &name_key).await?.ok_or(RepoError::UserNotFound)?;
    let after = requested.apply(&before);
    let mut fields = before.changes(&after);
    fields.extend(hash.is_some().then_some("password"));
    dispatch::never_refuse_if(takes_only_access_away(&before, &fields));
    let mut hashes = Vec::new();
    if fields.iter().any(|field| change::affects_identity(field)) {
        // Before the change, which may end sessions.
        hashes = token_hashes(&mut tx, before.id()).await?;
    }
    if !fields.is_empty() {
        change_user(&mut tx, &before, &after, hash, now).await?;
        let (target, details) = (Target::user(before.id(), &before.name), [("fields", fields.join(","))]);
        change::record(&mut tx, authorized, Action::UserUpdate, target, &details, now).await?;
        if requested.may_remove_administrator() {
            lost_rights::end_waiting(state, &mut tx, authorized, before.id(), now).await?;
        }
    }
    let details = state.accounts.details_in(&mut tx, before.id()).await?;
    let profile = details.as_ref().map(accounts::encode_profile);
    let details = details.as_ref().map(accounts::encode_details);
    let shown = repo::User { details, profile, ..encode::user(after.into(), authorized.viewer()) };
    let response = UpdateUserResponse { user: Some(shown) };
    let response = change::commit(tx, key, response, now).await?;
    change::revoke_cached(state.cache.as_ref(), &hashes).await;
    Ok(response)
}

pub(super) async fn delete_user(
    state: &AppState,
    authorized: Authorized,
    request: Request<DeleteUserRequest>,
) -> Result<DeleteUserResponse, RepoError> {
    let key = IdempotencyKey::of(&request, authorized.user()?.0, "DeleteUser")?;
    let (username, shared) = (request.into_inner().username, state.clone());
    // Runs in its own task: a request cancelled after its commit must still revoke the cached
    // tokens.
    let task = state.life.spawn_for_request("delete user", async move {
        once(&shared.db, key.as_ref(), delete(&shared, &username, &authorized, key.as_ref())).await
    });
    task.await.unwrap_or(Err(RepoError::Interrupted))
}

async fn delete(
    state: &AppState,
    username: &str,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<DeleteUserResponse, RepoError> {
    let name_key = lookup_key(username).ok_or(RepoError::UserNotFound)?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    lock_administrators(&mut tx).await?;
    let user = lock_user(&mut tx, &name_key).await?.ok_or(RepoError::UserNotFound)?;
    let hashes = token_hashes(&mut tx, user.id()).await?;
    lost_rights::end_transfers(state, &mut tx, authorized, user.id(), now).await?;
    store::delete_user(&mut tx, &user).await?;
    change::record(&mut tx, authorized, Action::UserDelete, Target::user(user.id(), &user.name), &[], now).await?;
    let response = change::commit(tx, key, DeleteUserResponse {}, now).await?;
    change::revoke_cached(state.cache.as_ref(), &hashes).await;
    tracing::info!(user.id = user.id, "deleted user {}", user.id);
    Ok(response)
}

/// Verifies an address of an account, or marks it unverified.
pub(super) async fn set_email_verification(
    state: &AppState,
    authorized: Authorized,
    request: Request<SetEmailVerificationRequest>,
) -> Result<SetEmailVerificationResponse, RepoError> {
    let key = IdempotencyKey::of(&request, authorized.user()?.0, "SetEmailVerification")?;
    once(&state.db, key.as_ref(), set_verification(state, request.get_ref(), &authorized, key.as_ref())).await
}

async fn set_verification(
    state: &AppState,
    request: &SetEmailVerificationRequest,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<SetEmailVerificationResponse, RepoError> {
    let name_key = lookup_key(&request.username).ok_or(RepoError::UserNotFound)?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    let user = lock_user(&mut tx, &name_key).await?.ok_or(RepoError::UserNotFound)?;
    let email = Email::parse(&request.email, "email")?;
    let (is_changed, action) = if request.is_verified {
        (verify_email(&mut tx, user.id(), &email, now).await?, Action::EmailVerify)
    } else {
        if email.key() == Email::lookup_key(&user.email) {
            return Err(RepoError::field("email", "invalid", "must not be the primary address of the account"));
        }
        (unverify_email(&mut tx, user.id(), &email).await?, Action::EmailUnverify)
    };
    if is_changed {
        let (target, details) = (Target::user(user.id(), &user.name), [("email", email.as_str().to_owned())]);
        change::record(&mut tx, authorized, action, target, &details, now).await?;
    }
    change::commit(tx, key, SetEmailVerificationResponse {}, now).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_takes_only_access_away_if_no_other_field_changes() {
        let record = |is_active, is_admin| UserRecord {
            id: 1,
            name: "Ada".to_owned(),
            name_key: "ada".to_owned(),
            full_name: String::new(),
            email: "ada@example.com".to_owned(),
            website: String::new(),
            location: String::new(),
            description: String::new(),
            hides_activity: false,
            is_active,
            is_admin,
            repository_limit: None,
        };
        let (user, administrator, disabled) = (record(true, false), record(true, true), record(false, true));
        for (before, fields, expected) in [
            (&user, &["is_active"][..], true),
            (&administrator, &["is_admin"], true),
            (&administrator, &["is_active", "is_admin"], true),
            (&user, &[], false),
            (&user, &["full_name", "is_active"], false),
            (&user, &["is_active", "password"], false),
            // Disables the user and makes them an administrator.
            (&user, &["is_active", "is_admin"], false),
            (&disabled, &["is_active"], false),
            (&disabled, &["is_admin"], false),
        ] {
            assert_eq!(takes_only_access_away(before, fields), expected, "{before:?} {fields:?}");
        }
    }
}
