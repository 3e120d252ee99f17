//! Releases and their files. Tags and file contents are on the git store: a tag is created before
//! its release, contents before their row, and contents are removed after their row. Drafts do not
//! exist for viewers without write permission.

mod assets;
mod releases;
mod storage;

use std::time::{Duration, Instant};

use ferrite_db::Tx;
use ferrite_proto::Permission;
use ferrite_proto::id::UserId;
use ferrite_proto::repo::release_service_server::ReleaseService;
use ferrite_proto::repo::*;
use ferrite_rpc::auth::AuthError;

use self::assets::{
    begin_asset_upload, count_downloads, create_release_asset, delete_release_asset, get_release_asset,
    list_release_assets, update_release_asset,
};
use self::releases::{create_release, delete_release, get_release, get_tag_use, list_releases, update_release};
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
    get_tag_use(GetTagUseRequest) -> GetTagUseResponse;
});

/// How long a write waits while another request creates a tag.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Polling interval.
const WAIT_INTERVAL: Duration = Duration::from_millis(50);

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

/// Begins a transaction, locks the repository, and waits until no other request has claimed the tag
/// name of the release or `tag_name`. Returns the owner. Fails with [`RepoError::Interrupted`] on
/// timeout.
async fn lock_tags(
    state: &AppState,
    repository: &Repository,
    release_id: Option<i64>,
    tag_name: Option<&str>,
) -> Result<(Tx, UserId), RepoError> {
    let (id, begun) = (repository.id(), Instant::now());
    loop {
        let mut tx = state.db.begin().await?;
        let owner = state.repositories.lock(&mut tx, id).await?.ok_or(AuthError::RepositoryNotFound)?;
        let now = state.clock.now_us();
        if !state.releases.is_claimed(&mut tx, id, release_id, tag_name, now).await? {
            return Ok((tx, owner));
        }
        tx.rollback().await?;
        if begun.elapsed() > MAX_WAIT {
            return Err(RepoError::Interrupted);
        }
        tokio::time::sleep(WAIT_INTERVAL).await;
    }
}

/// Like [`lock_tags`], for a write of a release. `new_tag` is the tag name it gets. Returns the
/// release too.
async fn lock(
    state: &AppState,
    repository: &Repository,
    release_id: i64,
    new_tag: Option<&str>,
) -> Result<(Tx, UserId, Release), RepoError> {
    let (mut tx, owner) = lock_tags(state, repository, Some(release_id), new_tag).await?;
    let release = state.releases.find_locked(&mut tx, repository.id(), &ReleaseKey::Id(release_id)).await?;
    Ok((tx, owner, release.ok_or(RepoError::ReleaseNotFound)?))
}

/// Like [`lock`], for the release of a tag, which keeps it.
async fn lock_by_tag(
    state: &AppState,
    repository: &Repository,
    tag_name: String,
) -> Result<(Tx, UserId, Release), RepoError> {
    // PostgreSQL rejects NUL, and no tag contains one.
    if tag_name.contains('\0') {
        return Err(RepoError::ReleaseNotFound);
    }
    let (mut tx, owner) = lock_tags(state, repository, None, Some(&tag_name)).await?;
    let release = state.releases.find_locked(&mut tx, repository.id(), &ReleaseKey::Tag(tag_name)).await?;
    Ok((tx, owner, release.ok_or(RepoError::ReleaseNotFound)?))
}
