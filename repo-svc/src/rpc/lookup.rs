//! What several RPCs look up the same way.

use ferrite_kit::auth::AuthError;
use ferrite_kit::db::Tx;
use ferrite_proto::id::UserId;
use ferrite_proto::repo::{BasicCredential, Identity};

use crate::access::Viewer;
use crate::core::Core;
use crate::credentials::{Origin, Proven};
use crate::model::{User, lookup_key};
use crate::store::Organization;
use crate::{RepoError, credentials};

/// A user or organization by name.
pub(super) async fn account(core: &Core, name: &str) -> Result<User, RepoError> {
    let found = match lookup_key(name) {
        Some(key) => core.accounts.find(&key).await?,
        None => None,
    };
    found.ok_or(RepoError::UserNotFound)
}

/// A user, not an organization, by name.
pub(super) async fn user(core: &Core, name: &str) -> Result<User, RepoError> {
    let found = account(core, name).await?;
    if found.is_organization { Err(RepoError::UserNotFound) } else { Ok(found) }
}

/// An organization by name, as it is to `viewer`: for operations that ask nothing of it of their caller.
pub(super) async fn organization(core: &Core, name: &str, viewer: &Viewer) -> Result<Organization, RepoError> {
    let found = match lookup_key(name) {
        Some(key) => core.organizations.find(&key, viewer.user()).await?,
        None => None,
    };
    found.ok_or(RepoError::OrganizationNotFound)
}

/// The one whose password was given, who is the one whose tokens are meant.
#[derive(Debug)]
pub(super) struct TokenOwner(Proven);

impl TokenOwner {
    /// The account.
    pub(super) fn id(&self) -> UserId {
        UserId(self.0.identity.user_id)
    }

    /// Who that is, with every scope.
    pub(super) fn identity(&self) -> &Identity {
        &self.0.identity
    }

    /// Makes sure that the password has not been changed and the account not been disabled since, until the transaction ends.
    pub(super) async fn confirm(&self, core: &Core, tx: &mut Tx) -> Result<(), RepoError> {
        match core.accounts.is_password(tx, self.id(), self.0.password_hash.expose()).await? {
            true => Ok(()),
            false => Err(AuthError::BadCredentials.into()),
        }
    }
}

/// The user whose password is given, who must be the one whose tokens are meant.
pub(super) async fn token_owner(
    core: &Core,
    credential: Option<BasicCredential>,
    origin: &Origin,
    username: &str,
) -> Result<TokenOwner, RepoError> {
    let credential = credential.ok_or(AuthError::CredentialsRequired)?;
    let proven = credentials::password(core, &credential, origin).await?;
    let meant = account(core, username).await?;
    if meant.id.0 != proven.identity.user_id {
        return Err(RepoError::NotYourTokens);
    }
    Ok(TokenOwner(proven))
}
