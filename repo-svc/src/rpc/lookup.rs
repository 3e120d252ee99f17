//! Lookups that several RPCs share: accounts and organizations by name, the owner of tokens by password, and pages of lists.
//!
//! Not here: lookups that check a rule of the permission table (`authorized`).

use ferrite_core::page::Page;
use ferrite_db::Tx;
use ferrite_proto::id::UserId;
use ferrite_proto::repo::{BasicCredential, Identity};
use ferrite_rpc::auth::AuthError;

use super::authorized::Authorized;
use super::dispatch;
use crate::access::{Capacity, Viewer};
use crate::auth::{ClientAddress, PasswordProof};
use crate::error::RepoError;
use crate::model::User;
use crate::state::AppState;
use crate::store::Organization;

/// Limit for the size of a page.
const MAX_PAGE_SIZE: i32 = 1_000;

/// Returns the page that a request names, for lists without a limit of their own.
pub(super) fn page(page: i32, page_size: i32) -> Page {
    Page::nearest(page, page_size, MAX_PAGE_SIZE)
}

/// Returns the user or organization with a name.
///
/// # Errors
/// [`RepoError::UserNotFound`], or those of the database.
pub(super) async fn account(state: &AppState, name: &str) -> Result<User, RepoError> {
    state.accounts.find(name).await?.ok_or(RepoError::UserNotFound)
}

/// Returns the user with a name; an organization of that name counts as missing.
///
/// # Errors
/// [`RepoError::UserNotFound`], or those of the database.
pub(super) async fn user(state: &AppState, name: &str) -> Result<User, RepoError> {
    let found = account(state, name).await?;
    if found.is_organization { Err(RepoError::UserNotFound) } else { Ok(found) }
}

/// Returns the user with a name, or the authenticated caller if the name is empty.
///
/// # Errors
/// [`AuthError::CredentialsRequired`], or those of [`user`].
pub(super) async fn user_or_caller(
    state: &AppState,
    authorized: &Authorized,
    username: &str,
) -> Result<UserId, RepoError> {
    if username.is_empty() { Ok(authorized.user()?) } else { Ok(user(state, username).await?.id) }
}

/// Returns the organization with a name, and the role of `viewer` in it, for operations that require no role.
///
/// # Errors
/// [`RepoError::OrganizationNotFound`], or those of the database.
pub(super) async fn organization(state: &AppState, name: &str, viewer: &Viewer) -> Result<Organization, RepoError> {
    state.organizations.find(name, viewer.user()).await?.ok_or(RepoError::OrganizationNotFound)
}

/// The account that will own what a request makes.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    pub(super) id: UserId,
    pub(super) name: String,
}

impl Owner {
    /// Returns the authenticated caller.
    ///
    /// # Errors
    /// [`AuthError::CredentialsRequired`].
    pub(super) fn caller(authorized: &Authorized) -> Result<Self, AuthError> {
        let identity = authorized.identity()?;
        Ok(Self { id: UserId(identity.user_id), name: identity.username.clone() })
    }

    /// Returns the user that a request names, or the caller if it names none. Only administrators of the site act for other users.
    ///
    /// # Errors
    /// Those of [`is_for_caller`], or those of [`user`].
    pub(super) async fn user(state: &AppState, authorized: &Authorized, username: &str) -> Result<Self, RepoError> {
        if is_for_caller(authorized, username)? {
            return Ok(Self::caller(authorized)?);
        }
        Ok(user(state, username).await?.into())
    }
}

impl From<User> for Owner {
    fn from(account: User) -> Self {
        Self { id: account.id, name: account.username }
    }
}

/// Returns whether the user that a request names is the caller, which the empty name stands for.
///
/// # Errors
/// [`AuthError::AdminRequired`] for another user, unless the caller acts as an administrator.
pub(super) fn is_for_caller(authorized: &Authorized, username: &str) -> Result<bool, AuthError> {
    if username.is_empty() || username.eq_ignore_ascii_case(&authorized.identity()?.username) {
        return Ok(true);
    }
    if authorized.capacity() == Capacity::Administrator { Ok(false) } else { Err(AuthError::AdminRequired) }
}

/// The user whose tokens a request is about, authenticated by password.
#[derive(Debug)]
pub(super) struct TokenOwner(PasswordProof);

impl TokenOwner {
    /// Returns the account.
    pub(super) fn id(&self) -> UserId {
        UserId(self.0.identity.user_id)
    }

    /// Returns the identity, which has every scope.
    pub(super) fn identity(&self) -> &Identity {
        &self.0.identity
    }

    /// Checks that the password was not changed and the account not disabled since, and keeps it so until the transaction ends.
    ///
    /// # Errors
    /// [`AuthError::BadCredentials`], or those of the database.
    pub(super) async fn confirm(&self, state: &AppState, tx: &mut Tx) -> Result<(), RepoError> {
        match state.accounts.is_password(tx, self.id(), self.0.password_hash.expose()).await? {
            true => Ok(()),
            false => Err(AuthError::BadCredentials.into()),
        }
    }
}

/// Authenticates the user whose tokens a request is about by its password.
///
/// # Errors
/// [`AuthError::CredentialsRequired`] without a password, [`RepoError::NotYourTokens`] for the password of another user, or those
/// of [`CredentialChecker::check_password`](crate::auth::CredentialChecker::check_password).
pub(super) async fn token_owner(
    state: &AppState,
    credential: Option<BasicCredential>,
    address: &ClientAddress,
    username: &str,
) -> Result<TokenOwner, RepoError> {
    let credential = credential.ok_or(AuthError::CredentialsRequired)?;
    let proof = state.credentials.check_password(&credential, address).await?;
    let owner = account(state, username).await?;
    if owner.id.0 != proof.identity.user_id {
        return Err(RepoError::NotYourTokens);
    }
    dispatch::write_as(state, owner.id, proof.identity.is_admin).await?;
    Ok(TokenOwner(proof))
}
