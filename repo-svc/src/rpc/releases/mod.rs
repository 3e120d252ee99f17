//! Releases and their files. Tags and file contents are on the git store: a tag is created before
//! its release, contents before their row, and contents are removed after their row. Drafts do not
//! exist for viewers without write permission.

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

/// Whether the caller can see drafts.
fn sees_drafts(authorized: &Authorized, repository: &Repository) -> bool {
    authorized.level(repository) >= Permission::Write
}

async fn find_visible(
    state: &AppState,
    authorized: &Authorized,
    repository: &Repository,
    key: &ReleaseKey,
) -> Result<Release, RepoError> {
    let found = state.releases.find(repository.id(), key).await?;
    found.filter(|release| !release.is_draft || sees_drafts(authorized, repository)).ok_or(RepoError::ReleaseNotFound)
}
