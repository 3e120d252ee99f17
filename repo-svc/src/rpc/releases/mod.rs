//! Releases and the entries of their files. The bytes of files and the tags are on the store: a tag is made before its release, and
//! the bytes of a file are there before its entry, and removed after it. A draft does not exist for viewers without write permission.

mod assets;
mod releases;
mod storage;

use ferrite_proto::Permission;
use ferrite_proto::repo::release_service_server::ReleaseService;
use ferrite_proto::repo::*;

use self::assets::{
    begin_asset_upload, count_downloads, create_release_asset, delete_release_asset, get_release_asset,
    list_release_assets, update_release_asset,
};
use self::releases::{create_release, delete_release, get_release, list_releases, update_release};
use super::authorized::Authorized;
use super::dispatch::authorized_service;
use crate::error::RepoError;
use crate::state::AppState;
use crate::store::{Release, ReleaseKey, Repository};

authorized_service!(ReleaseService {
    list_releases(ListReleasesRequest) -> ListReleasesResponse;
    get_release(GetReleaseRequest) -> GetReleaseResponse;
    create_release(CreateReleaseRequest) -> CreateReleaseResponse;
    update_release(UpdateReleaseRequest) -> UpdateReleaseResponse;
    delete_release(DeleteReleaseRequest) -> DeleteReleaseResponse;
    list_release_assets(ListReleaseAssetsRequest) -> ListReleaseAssetsResponse;
    get_release_asset(GetReleaseAssetRequest) -> GetReleaseAssetResponse;
    begin_asset_upload(BeginAssetUploadRequest) -> BeginAssetUploadResponse;
    create_release_asset(CreateReleaseAssetRequest) -> CreateReleaseAssetResponse;
    update_release_asset(UpdateReleaseAssetRequest) -> UpdateReleaseAssetResponse;
    delete_release_asset(DeleteReleaseAssetRequest) -> DeleteReleaseAssetResponse;
    count_downloads(CountDownloadsRequest) -> CountDownloadsResponse;
});

/// Returns whether the caller may see drafts of a repository.
fn sees_drafts(authorized: &Authorized, repository: &Repository) -> bool {
    authorized.level(repository) >= Permission::Write
}

/// Returns a release of the repository.
///
/// # Errors
/// [`RepoError::ReleaseNotFound`], or those of the database.
async fn find_visible(
    state: &AppState,
    authorized: &Authorized,
    repository: &Repository,
    key: &ReleaseKey,
) -> Result<Release, RepoError> {
    let found = state.releases.find(repository.id(), key).await?;
    found.filter(|release| !release.is_draft || sees_drafts(authorized, repository)).ok_or(RepoError::ReleaseNotFound)
}
