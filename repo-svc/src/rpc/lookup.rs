//! What several RPCs look up the same way.

use ferrite_kit::auth::AuthError;
use ferrite_proto::Permission;
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::repo::{BasicCredential, RepositoryRef, repository_ref};

use crate::access::Viewer;
use crate::core::Core;
use crate::credentials::Origin;
use crate::model::{User, lookup_key};
use crate::store::{Repository, RepositoryKey};
use crate::{RepoError, credentials};

/// A repository that the viewer may see. What is missing and what is hidden are refused alike, after the same query.
pub(super) async fn visible(core: &Core, by: Option<RepositoryRef>, viewer: Viewer) -> Result<Repository, RepoError> {
    let key = match by.and_then(|reference| reference.by) {
        Some(repository_ref::By::Id(id)) => Some(RepositoryKey::Id(RepositoryId(id))),
        Some(repository_ref::By::Name(name)) => RepositoryKey::of(&name.owner, &name.name),
        None => return Err(RepoError::field("repository", "required", "is required")),
    };
    let found = match key {
        Some(key) => core.repositories.find(&key, viewer).await?,
        None => None,
    };
    match found.filter(|found| found.level(viewer) >= Permission::Read) {
        Some(repository) => Ok(repository),
        None => Err(AuthError::RepositoryNotFound.into()),
    }
}

/// A user or organization by name.
pub(super) async fn user(core: &Core, name: &str) -> Result<User, RepoError> {
    let found = match lookup_key(name) {
        Some(key) => core.accounts.find(&key).await?,
        None => None,
    };
    found.ok_or(RepoError::UserNotFound)
}

/// The user whose password is given, who must be the one whose tokens are meant.
pub(super) async fn token_owner(
    core: &Core,
    credential: Option<BasicCredential>,
    origin: &Origin,
    username: &str,
) -> Result<UserId, RepoError> {
    let credential = credential.ok_or(AuthError::CredentialsRequired)?;
    let identity = credentials::password(core, &credential, origin).await?;
    let meant = user(core, username).await?;
    if meant.id.0 != identity.user_id {
        return Err(RepoError::NotYourTokens);
    }
    Ok(meant.id)
}
