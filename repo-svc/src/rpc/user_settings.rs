//! What users change about their own accounts: their profile and their password.

use ferrite_core::Secret;
use ferrite_db::idempotency::{IdempotencyKey, once};
use ferrite_proto::repo::user_settings_service_server::UserSettingsService;
use ferrite_proto::repo::*;
use ferrite_rpc::version;
use tonic::Request;

use super::authorized::Authorized;
use super::change;
use super::dispatch::authorized_service;
use super::lookup::{self, TokenOwner};
use crate::error::RepoError;
use crate::model::{Description, FullName, Password, Violations, parse_location, parse_user_website};
use crate::state::AppState;
use crate::store::{Action, Entry, Target, UserRecord, append, change_user, lock_own_user, token_hashes};

authorized_service!(UserSettingsService {
    get_user_settings(GetUserSettingsRequest) -> GetUserSettingsResponse;
    update_user_settings(UpdateUserSettingsRequest) -> UpdateUserSettingsResponse;
    change_password(ChangePasswordRequest) -> ChangePasswordResponse;
});

async fn get_user_settings(
    state: &AppState,
    authorized: Authorized,
    _: Request<GetUserSettingsRequest>,
) -> Result<GetUserSettingsResponse, RepoError> {
    let found = state.accounts.record(authorized.user()?).await?.ok_or(RepoError::UserNotFound)?;
    let response = GetUserSettingsResponse { settings: Some(shown(&found)) };
    version::tell(&response);
    Ok(response)
}

fn shown(user: &UserRecord) -> UserSettings {
    UserSettings {
        full_name: user.full_name.clone(),
        website: user.website.clone(),
        location: user.location.clone(),
        description: user.description.clone(),
        hides_activity: user.hides_activity,
    }
}

/// Changing the full name revokes the cached identities of the user's tokens in other processes.
async fn update_user_settings(
    state: &AppState,
    authorized: Authorized,
    request: Request<UpdateUserSettingsRequest>,
) -> Result<UpdateUserSettingsResponse, RepoError> {
    let key = IdempotencyKey::of(&request, authorized.user()?.0, "UpdateUserSettings")?;
    let (request, shared) = (request.into_inner(), state.clone());
    // Runs in its own task: a request cancelled after its commit must still revoke the cached
    // tokens.
    let task = state.life.spawn_for_request("update user settings", async move {
        once(&shared.db, key.as_ref(), update(&shared, &request, &authorized, key.as_ref())).await
    });
    task.await.unwrap_or(Err(RepoError::Interrupted))
}

/// Returns the account after the change; absent fields stay.
fn changed(before: &UserRecord, request: &UpdateUserSettingsRequest) -> Result<UserRecord, RepoError> {
    let mut violations = Violations::default();
    let parsed = (
        violations.take_optional(request.full_name.as_deref(), "full_name", FullName::parse),
        violations.take_optional(request.website.as_deref(), "website", parse_user_website),
        violations.take_optional(request.location.as_deref(), "location", parse_location),
        violations.take_optional(request.description.as_deref(), "description", Description::parse_lines),
    );
    let (Some(full_name), Some(website), Some(location), Some(description)) = parsed else {
        return Err(violations.into_error());
    };
    let text = |new: Option<&str>, old: &str| new.unwrap_or(old).to_owned();
    Ok(UserRecord {
        full_name: text(full_name.as_ref().map(FullName::as_str), &before.full_name),
        website: text(website.as_deref(), &before.website),
        location: text(location.as_deref(), &before.location),
        description: text(description.as_ref().map(Description::as_str), &before.description),
        hides_activity: request.hides_activity.unwrap_or(before.hides_activity),
        ..before.clone()
    })
}

async fn update(
    state: &AppState,
    request: &UpdateUserSettingsRequest,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<UpdateUserSettingsResponse, RepoError> {
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    let before = lock_own_user(&mut tx, authorized.identity()?).await?;
    let after = changed(&before, request)?;
    tx.require_version(Some(&GetUserSettingsResponse { settings: Some(shown(&before)) }))?;
    let fields = before.changes(&after);
    let mut hashes = Vec::new();
    if fields.iter().any(|field| change::affects_identity(field)) {
        hashes = token_hashes(&mut tx, before.id()).await?;
    }
    if !fields.is_empty() {
        change_user(&mut tx, &before, &after, None, now).await?;
        let (target, details) = (Target::user(before.id(), &before.name), [("fields", fields.join(","))]);
        change::record(&mut tx, authorized, Action::UserUpdate, target, &details, now).await?;
    }
    let response = UpdateUserSettingsResponse { settings: Some(shown(&after)) };
    let response = change::commit(tx, key, response, now).await?;
    change::revoke_cached(state.cache.as_ref(), &hashes).await;
    Ok(response)
}

async fn change_password(
    state: &AppState,
    authorized: Authorized,
    request: Request<ChangePasswordRequest>,
) -> Result<ChangePasswordResponse, RepoError> {
    let ChangePasswordRequest { credential, new_password } = request.into_inner();
    let owner = lookup::password_owner(state, credential, authorized.client_address()).await?;
    let password = Password::parse(&Secret::new(new_password), "password")?;
    let shared = state.clone();
    // Runs in its own task: a request cancelled after its commit must still revoke the cached
    // sessions.
    let task = state.life.spawn_for_request("change password", async move {
        set_password(&shared, &authorized, &owner, &password).await
    });
    task.await.unwrap_or(Err(RepoError::Interrupted))
}

async fn set_password(
    state: &AppState,
    authorized: &Authorized,
    owner: &TokenOwner,
    password: &Password,
) -> Result<ChangePasswordResponse, RepoError> {
    let hash = state.passwords.hash(password).await?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    let before = lock_own_user(&mut tx, owner.identity()).await?;
    owner.confirm(state, &mut tx).await?;
    // Before the change, which ends the sessions.
    let hashes = token_hashes(&mut tx, owner.id()).await?;
    change_user(&mut tx, &before, &before, Some(hash), now).await?;
    let entry = Entry {
        actor: &authorized.actor_as(owner.identity()),
        action: Action::UserUpdate,
        target: Target::user(owner.id(), &before.name),
        details: &[("fields", "password".to_owned())],
    };
    append(&mut tx, entry, now).await?;
    tx.commit().await?;
    change::revoke_cached(state.cache.as_ref(), &hashes).await;
    Ok(ChangePasswordResponse {})
}
