//! Files of releases: reserving a file on the store, adding it to a release, and counting
//! downloads.

use ferrite_core::timestamp;
use ferrite_core::writer::serve;
use ferrite_db::Tx;
use ferrite_db::idempotency::{IdempotencyError, IdempotencyKey};
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::repo::{
    self, BeginAssetUploadRequest, BeginAssetUploadResponse, ByteQuota, CountDownloadsRequest, CountDownloadsResponse,
    CreateReleaseAssetRequest, CreateReleaseAssetResponse, DeleteReleaseAssetRequest, DeleteReleaseAssetResponse,
    GetReleaseAssetRequest, GetReleaseAssetResponse, ListReleaseAssetsRequest, ListReleaseAssetsResponse,
    UpdateReleaseAssetRequest, UpdateReleaseAssetResponse,
};
use ferrite_rpc::auth::AuthError;
use ferrite_rpc::version::{self, is_conditional};
use tonic::Request;

use super::{find_visible, lock, storage};
use crate::access::Viewer;
use crate::error::RepoError;
use crate::model::{AssetName, NewAsset};
use crate::rpc::authorized::Authorized;
use crate::rpc::{change, dispatch, encode, repeat, versions};
use crate::state::AppState;
use crate::store::{Asset, AssetKey, Release, ReleaseKey};

const MAX_DOWNLOADS: usize = 1_000;

pub(super) async fn list_release_assets(
    state: &AppState,
    authorized: Authorized,
    request: Request<ListReleaseAssetsRequest>,
) -> Result<ListReleaseAssetsResponse, RepoError> {
    let request = request.into_inner();
    let repository = authorized.repository(&state.repositories, request.repository).await?;
    let release = find_visible(state, &authorized, &repository, &ReleaseKey::Id(request.release_id)).await?;
    let assets = state.releases.assets([release.id]).await?;
    let assets = assets.into_iter().map(|asset| encode_asset(asset, &release)).collect();
    Ok(ListReleaseAssetsResponse { assets })
}

pub(super) async fn get_release_asset(
    state: &AppState,
    authorized: Authorized,
    request: Request<GetReleaseAssetRequest>,
) -> Result<GetReleaseAssetResponse, RepoError> {
    let request = request.into_inner();
    let repository = authorized.repository(&state.repositories, request.repository).await?;
    // PostgreSQL rejects NUL, and no name contains one.
    if request.tag_name.contains('\0') || request.name.contains('\0') {
        return Err(RepoError::ReleaseNotFound);
    }
    let (release, asset) = if request.tag_name.is_empty() {
        (ReleaseKey::Id(request.release_id), AssetKey::Id(request.asset_id))
    } else {
        (ReleaseKey::Tag(request.tag_name), AssetKey::Name(request.name))
    };
    let release = find_visible(state, &authorized, &repository, &release).await?;
    let asset = state.releases.find_asset(&release, &asset).await?.ok_or(RepoError::AssetNotFound)?;
    let asset = encode_asset(asset, &release);
    if version::is_asked() {
        version::tell(&versions::asset(asset.clone()));
    }
    Ok(GetReleaseAssetResponse { asset: Some(asset) })
}

/// Checks an upload before its bytes arrive, and reserves the file on the store.
pub(super) async fn begin_asset_upload(
    state: &AppState,
    _: Authorized,
    request: Request<BeginAssetUploadRequest>,
) -> Result<BeginAssetUploadResponse, RepoError> {
    let is_repeated = is_repeated(state, &request).await?;
    let request = request.into_inner();
    // The gateway makes this call for the user.
    let user = state.accounts.find_active(UserId(request.user_id), &Viewer::of(None)).await?;
    let user = user.ok_or(AuthError::BadCredentials)?;
    dispatch::write_as(state, user.id, user.is_admin).await?;
    let name = AssetName::parse(&request.name)?;
    let repository = RepositoryId(request.repository_id);
    // The user can write to the repository, so drafts are visible.
    let release = state.releases.find(repository, &ReleaseKey::Id(request.release_id)).await?;
    let release = release.ok_or(RepoError::ReleaseNotFound)?;
    // A repeated upload adds nothing: its bytes are removed again.
    let quota = if is_repeated { None } else { check_quota(state, repository).await? };
    let file_id = hex::encode(rand::random::<[u8; 16]>());
    state.releases.reserve_file(&release, (&name, is_repeated), &file_id, state.clock.now_us()).await?;
    Ok(BeginAssetUploadResponse { file_id, quota })
}

/// Returns the quota of the repository's owner; `None` if there is none. Fails if it is used up.
async fn check_quota(state: &AppState, repository: RepositoryId) -> Result<Option<ByteQuota>, RepoError> {
    let (row, site) = (state.quotas.of_repository(repository).await?, state.quotas.site());
    row.check_bytes(site, 0)?;
    Ok(encode::byte_quota(row, site))
}

/// Whether the idempotency key was used by a `CreateReleaseAsset` of the same user and token. That
/// call decides whether it is really a repetition, because only it knows the size and hash of the
/// file.
async fn is_repeated(state: &AppState, request: &Request<BeginAssetUploadRequest>) -> Result<bool, RepoError> {
    let BeginAssetUploadRequest { user_id, token_id, .. } = request.get_ref();
    let Some(key) = IdempotencyKey::of_token(request, *user_id, *token_id, "CreateReleaseAsset")? else {
        return Ok(false);
    };
    match key.replay::<CreateReleaseAssetResponse>(&state.db).await {
        Ok(stored) => Ok(stored.is_some()),
        Err(IdempotencyError::Reused) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Adds a file to a release. Its bytes are already on the store.
pub(super) async fn create_release_asset(
    state: &AppState,
    authorized: Authorized,
    request: Request<CreateReleaseAssetRequest>,
) -> Result<CreateReleaseAssetResponse, RepoError> {
    let (metadata, extensions, request) = request.into_parts();
    // A repeated upload has a new file on the store with the same content.
    let content = CreateReleaseAssetRequest { file_id: String::new(), ..request.clone() };
    let content = Request::from_parts(metadata, extensions, content);
    let key = repeat::key_for_repository(state, &authorized, &content, "CreateReleaseAsset", |content| {
        &mut content.repository
    })
    .await?;
    let access = repeat::repository(state, &authorized, request.repository.clone());
    let file_id = request.file_id.clone();
    let outcome =
        repeat::once(&state.db, key.as_ref(), access, create(state, request, &authorized, key.as_ref())).await;
    if outcome.is_err() || key.is_some() {
        discard(state, &file_id).await;
    }
    outcome
}

/// Removes the bytes of a file that no release uses, so that rejected and repeated uploads do not
/// fill the disk until the reservation ends.
async fn discard(state: &AppState, file_id: &str) {
    // Counts against nobody: the caller may have reached the write limit, and this must still
    // succeed.
    if let Err(error) = serve(try_discard(state, file_id)).await {
        tracing::warn!(%error, "cannot remove an unused release file now; the sweeper will");
    }
}

async fn try_discard(state: &AppState, file_id: &str) -> Result<(), RepoError> {
    let Some(repository) = state.releases.discard_file(file_id).await? else { return Ok(()) };
    if let Some(store) = state.stores.table().of_repositories(&[repository]).await?.get(&repository) {
        storage::remove_files(state, repository, store, vec![file_id.to_owned()]).await;
    }
    Ok(())
}

async fn create(
    state: &AppState,
    mut request: CreateReleaseAssetRequest,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<CreateReleaseAssetResponse, RepoError> {
    let repository = authorized.repository(&state.repositories, request.repository.take()).await?;
    let new = NewAsset::check(&request)?;
    let (mut tx, owner, release) = lock(state, &repository, request.release_id, None).await?;
    let now = state.clock.now_us();
    let asset = state.releases.insert_asset(&mut tx, &release, &new, authorized.user()?, now).await?;
    state.quotas.charge(&mut tx, owner, new.size_bytes).await?;
    change::commit(tx, key, CreateReleaseAssetResponse { asset: Some(encode_asset(asset, &release)) }, now).await
}

pub(super) async fn update_release_asset(
    state: &AppState,
    authorized: Authorized,
    request: Request<UpdateReleaseAssetRequest>,
) -> Result<UpdateReleaseAssetResponse, RepoError> {
    let key = repeat::key_for_repository(state, &authorized, &request, "UpdateReleaseAsset", |request| {
        &mut request.repository
    })
    .await?;
    let access = repeat::repository(state, &authorized, request.get_ref().repository.clone());
    repeat::once(&state.db, key.as_ref(), access, update(state, request.into_inner(), &authorized, key.as_ref())).await
}

async fn update(
    state: &AppState,
    mut request: UpdateReleaseAssetRequest,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<UpdateReleaseAssetResponse, RepoError> {
    let repository = authorized.repository(&state.repositories, request.repository.take()).await?;
    let name = request.name.as_deref().map(AssetName::parse).transpose()?;
    let (mut tx, _, release) = lock(state, &repository, request.release_id, None).await?;
    let found = state.releases.find_asset_locked(&mut tx, &release, request.asset_id).await?;
    let mut asset = found.ok_or(RepoError::AssetNotFound)?;
    require_version(&tx, &asset, &release)?;
    if let Some(name) = name {
        state.releases.rename_asset(&mut tx, asset.id, &name).await?;
        asset = Asset { name: name.as_str().to_owned(), ..asset };
    }
    let response = UpdateReleaseAssetResponse { asset: Some(encode_asset(asset, &release)) };
    change::commit(tx, key, response, state.clock.now_us()).await
}

pub(super) async fn delete_release_asset(
    state: &AppState,
    authorized: Authorized,
    request: Request<DeleteReleaseAssetRequest>,
) -> Result<DeleteReleaseAssetResponse, RepoError> {
    let key = repeat::key_for_repository(state, &authorized, &request, "DeleteReleaseAsset", |request| {
        &mut request.repository
    })
    .await?;
    let access = repeat::repository(state, &authorized, request.get_ref().repository.clone());
    repeat::once(&state.db, key.as_ref(), access, delete(state, request.into_inner(), &authorized, key.as_ref())).await
}

async fn delete(
    state: &AppState,
    request: DeleteReleaseAssetRequest,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<DeleteReleaseAssetResponse, RepoError> {
    let repository = authorized.repository(&state.repositories, request.repository).await?;
    let (mut tx, owner, release) = lock(state, &repository, request.release_id, None).await?;
    let asset = state.releases.find_asset_locked(&mut tx, &release, request.asset_id).await?;
    let asset = asset.ok_or(RepoError::AssetNotFound)?;
    require_version(&tx, &asset, &release)?;
    state.releases.delete_asset(&mut tx, &release, &asset).await?;
    state.quotas.release(&mut tx, owner, asset.size_bytes).await?;
    let response = change::commit(tx, key, DeleteReleaseAssetResponse {}, state.clock.now_us()).await?;
    storage::remove_files(state, repository.id(), &repository.store, vec![asset.file_id]).await;
    Ok(response)
}

pub(super) async fn count_downloads(
    state: &AppState,
    _: Authorized,
    request: Request<CountDownloadsRequest>,
) -> Result<CountDownloadsResponse, RepoError> {
    for downloads in request.into_inner().downloads.iter().take(MAX_DOWNLOADS) {
        state.downloads.note(downloads.asset_id, downloads.count.max(0));
    }
    Ok(CountDownloadsResponse {})
}

/// The repository of the release must be locked.
fn require_version(tx: &Tx, asset: &Asset, release: &Release) -> Result<(), RepoError> {
    if is_conditional() {
        tx.require_version(Some(&versions::asset(encode_asset(asset.clone(), release))))?;
    }
    Ok(())
}

pub(super) fn encode_asset(row: Asset, release: &Release) -> repo::ReleaseAsset {
    repo::ReleaseAsset {
        id: row.id,
        name: row.name,
        size_bytes: row.size_bytes,
        sha256: row.sha256,
        download_count: row.download_count,
        content_type: row.content_type,
        create_time: Some(timestamp(row.created_us)),
        file_id: row.file_id,
        tag_name: release.tag_name.clone(),
    }
}
