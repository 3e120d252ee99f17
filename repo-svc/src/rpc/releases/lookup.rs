//! Lookups that the RPCs about releases share. A draft does not exist for viewers without write permission.

use ferrite_proto::Permission;
use ferrite_proto::repo::{self, RepositoryRef};

use super::encode;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Release, ReleaseKey, Repository};

/// Returns whether the caller may see drafts of a repository.
pub(super) fn sees_drafts(permit: &Permit, repository: &Repository) -> bool {
    permit.level(repository) >= Permission::Write
}

/// Returns a release of the repository.
///
/// # Errors
/// [`RepoError::ReleaseNotFound`], or those of the database.
pub(super) async fn release(
    state: &AppState,
    permit: &Permit,
    repository: &Repository,
    key: &ReleaseKey,
) -> Result<Release, RepoError> {
    let found = state.releases.find(repository.id(), key).await?;
    found.filter(|release| !release.is_draft || sees_drafts(permit, repository)).ok_or(RepoError::ReleaseNotFound)
}

/// Returns a release with its files for the response to a write, for a repeated request.
///
/// # Errors
/// As [`release`].
pub(super) async fn read(
    state: &AppState,
    permit: &Permit,
    repository: Option<RepositoryRef>,
    id: i64,
) -> Result<repo::Release, RepoError> {
    let repository = permit.repository_by_any_name(&state.repositories, repository).await?;
    let row = release(state, permit, &repository, &ReleaseKey::Id(id)).await?;
    let assets = state.releases.assets([id]).await?;
    Ok(encode::release(row, assets, permit.viewer()))
}
