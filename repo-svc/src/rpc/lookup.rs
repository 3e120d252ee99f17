//! Lookups shared by several RPCs: accounts and organizations by name, the owner of tokens by
//! password, and pages of lists. They do not check the permission table; see `authorized`.

use ferrite_core::page::Page;
use ferrite_core::writer::never_refuse;
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

const MAX_PAGE_SIZE: i32 = 1_000;

/// For lists without their own limit.
pub(super) fn page(page: i32, page_size: i32) -> Page {
    Page::nearest(page, page_size, MAX_PAGE_SIZE)
}

/// Finds a user or organization by name. One that is hidden from the viewer gives the same error as
/// none.
pub(super) async fn account(state: &AppState, name: &str, viewer: &Viewer) -> Result<User, RepoError> {
    state.accounts.find(name, viewer).await?.ok_or(RepoError::UserNotFound)
}

/// Finds a user by name; not an organization.
pub(super) async fn user(state: &AppState, name: &str) -> Result<User, RepoError> {
    // Everybody sees all users.
    let found = account(state, name, &Viewer::of(None)).await?;
    if found.is_organization { Err(RepoError::UserNotFound) } else { Ok(found) }
}

/// Finds a user by name; the caller if the name is empty.
pub(super) async fn user_or_caller(
    state: &AppState,
    authorized: &Authorized,
    username: &str,
) -> Result<UserId, RepoError> {
    if username.is_empty() { Ok(authorized.user()?) } else { Ok(user(state, username).await?.id) }
}

/// Finds an organization and the role of `viewer` in it, for operations that require no role.
pub(super) async fn organization(state: &AppState, name: &str, viewer: &Viewer) -> Result<Organization, RepoError> {
    state.organizations.find(name, viewer).await?.ok_or(RepoError::OrganizationNotFound)
}

/// The account that will own what the request creates.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    pub(super) id: UserId,
    pub(super) name: String,
}

impl Owner {
    /// The authenticated caller.
    pub(super) fn caller(authorized: &Authorized) -> Result<Self, AuthError> {
        let identity = authorized.identity()?;
        Ok(Self { id: UserId(identity.user_id), name: identity.username.clone() })
    }

    /// The user that the request names, or the caller. Only site administrators can act for other
    /// users.
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

/// Whether the request is about the caller, whom an empty name stands for. Only administrators may
/// name another user.
pub(super) fn is_for_caller(authorized: &Authorized, username: &str) -> Result<bool, AuthError> {
    if username.is_empty() || username.eq_ignore_ascii_case(&authorized.identity()?.username) {
        return Ok(true);
    }
    if authorized.capacity() == Capacity::Administrator { Ok(false) } else { Err(AuthError::AdminRequired) }
}

/// The owner of the tokens or the session that a request is about, authenticated by password.
#[derive(Debug)]
pub(super) struct TokenOwner(PasswordProof);

impl TokenOwner {
    pub(super) fn id(&self) -> UserId {
        UserId(self.0.identity.user_id)
    }

    /// Has every scope.
    pub(super) fn identity(&self) -> &Identity {
        &self.0.identity
    }

    /// Checks that since the request began, the password was not changed and the account not
    /// disabled. Both stay so until the transaction ends.
    pub(super) async fn confirm(&self, state: &AppState, tx: &mut Tx) -> Result<(), RepoError> {
        match state.accounts.is_password(tx, self.id(), self.0.password_hash.expose()).await? {
            true => Ok(()),
            false => Err(AuthError::BadCredentials.into()),
        }
    }
}

/// Authenticates the owner of the tokens by password. Fails with [`RepoError::NotYourTokens`] for
/// the password of another user.
pub(super) async fn token_owner(
    state: &AppState,
    credential: Option<BasicCredential>,
    address: &ClientAddress,
    username: &str,
) -> Result<TokenOwner, RepoError> {
    let owner = password_owner(state, credential, address).await?;
    match account(state, username, &Viewer::of(Some(owner.identity()))).await? {
        named if named.id == owner.id() => Ok(owner),
        _ => Err(RepoError::NotYourTokens),
    }
}

/// Authenticates a user by password, as the writer of what the request changes.
pub(super) async fn password_owner(
    state: &AppState,
    credential: Option<BasicCredential>,
    address: &ClientAddress,
) -> Result<TokenOwner, RepoError> {
    let owner = check_password(state, credential, address).await?;
    dispatch::write_as(state, owner.id(), owner.identity().is_admin).await?;
    Ok(owner)
}

/// Authenticates a user by password, as the owner of the session that the request begins. Sessions
/// have limits of their own, so that an account can sign in when it has reached its write limit.
pub(super) async fn session_owner(
    state: &AppState,
    credential: Option<BasicCredential>,
    address: &ClientAddress,
) -> Result<TokenOwner, RepoError> {
    let owner = check_password(state, credential, address).await?;
    state.credentials.count_session(owner.id(), address).await?;
    // A direct call can have the token of an account, which would write otherwise.
    never_refuse();
    Ok(owner)
}

async fn check_password(
    state: &AppState,
    credential: Option<BasicCredential>,
    address: &ClientAddress,
) -> Result<TokenOwner, RepoError> {
    let credential = credential.ok_or(AuthError::CredentialsRequired)?;
    Ok(TokenOwner(state.credentials.check_password(&credential, address).await?))
}
