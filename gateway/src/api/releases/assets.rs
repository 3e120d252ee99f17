//! Release files: their metadata, and uploads, which are streamed to git-svc.

use std::sync::atomic::Ordering;

use axum::http::{HeaderMap, Method, Request, StatusCode};
use ferrite_api_types::convert::{MissingField, require};
use ferrite_api_types::links::RepositoryLinks;
use ferrite_api_types::{Time, shape};
use ferrite_proto::asset::{FILE_SHA256_HEADER, FILE_SIZE_HEADER};
use ferrite_proto::operation::{self, UPLOAD_ASSET};
use ferrite_proto::repo::{
    self, BeginAssetUploadRequest, BeginAssetUploadResponse, ByteQuota, CreateReleaseAssetRequest,
    DeleteReleaseAssetRequest, GetReleaseAssetRequest, ListReleaseAssetsRequest, RepositoryRef,
    UpdateReleaseAssetRequest,
};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::api::access::ResolvedAccess;
use crate::api::call::{ApiCall, Authenticated, MaybeAuthenticated, operations};
use crate::api::git::response::{error_of_response, git_request, send};
use crate::http::error::{ApiError, ApiResult};
use crate::http::filters::{QueryOf, filters};
use crate::http::page::{Total, WholeList};
use crate::http::path::{Params, RepoPath};
use crate::http::request::{NonEmpty, RequestBody, Text, fields};
use crate::http::response::{Created, Json, List, NoContent};
use crate::http::upload::{FileBody, Part, UPLOAD_TIMEOUT, Upload};

operations! {
    "/api/v1/repos/{owner}/{repo}/releases/{id}/assets" =>
        get list as operation::LIST_RELEASE_ASSETS,
        post upload as operation::CREATE_RELEASE_ASSET;
    "/api/v1/repos/{owner}/{repo}/releases/{id}/assets/{asset}" =>
        get get as operation::GET_RELEASE_ASSET,
        patch update as operation::UPDATE_RELEASE_ASSET,
        delete remove as operation::DELETE_RELEASE_ASSET;
}

filters! {
    /// Query parameters of an upload.
    struct UploadQuery {
        /// The name of the file: 1 to 255 bytes without slashes and control characters, unique in
        /// the release. The default is the file name in the multipart body.
        name: Text<255> = "demo-1.0.tar.gz",
    }
}

fields! {
    /// Changes of a release file.
    struct ChangedReleaseAsset {
        /// The name: 1 to 255 bytes without slashes and control characters, unique in the release.
        /// An empty one changes nothing.
        name: NonEmpty<Text<255>> = "demo-1.0.zip",
    }
}

shape! {
    /// A release file.
    #[derive(Clone, Debug, Serialize)]
    pub(super) struct ReleaseAsset {
        id: i64,
        name: String,
        /// The size in bytes.
        size: i64,
        /// The number of complete downloads.
        download_count: i64,
        created_at: Time,
        /// A UUID that never changes.
        uuid: String,
        browser_download_url: String,
        /// The SHA-256 hash of the content, 64 hexadecimal digits.
        sha256: String,
    }
}

impl ReleaseAsset {
    pub(super) fn new(asset: repo::ReleaseAsset, urls: &RepositoryLinks) -> Result<Self, MissingField> {
        Ok(Self {
            id: asset.id,
            browser_download_url: urls.release_download(&asset.tag_name, &asset.name),
            name: asset.name,
            size: asset.size_bytes,
            download_count: asset.download_count,
            created_at: Time::new(asset.create_time, "create_time")?,
            uuid: uuid_of(&asset.file_id),
            sha256: asset.sha256,
        })
    }
}

/// Derives a stable UUID that does not reveal the file's name on the store.
fn uuid_of(file_id: &str) -> String {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&Sha256::digest(file_id.as_bytes())[..16]);
    uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
}

enum Attachment {}

impl Part for Attachment {
    const NAME: &'static str = "attachment";
}

struct StoredFile {
    size_bytes: i64,
    sha256: String,
}

async fn list(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    params: Params,
    query: WholeList,
) -> ApiResult<List<ReleaseAsset>> {
    let request = ListReleaseAssetsRequest { repository: Some(path.repository()), release_id: params.id("id") };
    let response = call.clients.releases().list_release_assets(call.request(request)).await?.into_inner();
    let urls = call.links_of(path.repository()).await?;
    let total = Total::of(&response.assets);
    let shown = query.page.of(response.assets).map(|asset| ReleaseAsset::new(asset, &urls));
    Ok(query.list(shown.collect::<Result<Vec<_>, _>>()?, total, &call.links))
}

async fn get(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    params: Params,
) -> ApiResult<Json<ReleaseAsset>> {
    let request = GetReleaseAssetRequest {
        repository: Some(path.repository()),
        release_id: params.id("id"),
        asset_id: params.id("asset"),
        ..GetReleaseAssetRequest::default()
    };
    let response = call.clients.releases().get_release_asset(call.request(request)).await?.into_inner();
    let urls = call.links_of(path.repository()).await?;
    Ok(Json(ReleaseAsset::new(require(response.asset, "asset")?, &urls)?))
}

async fn upload(
    Authenticated(call): Authenticated,
    path: RepoPath,
    params: Params,
    query: QueryOf<UploadQuery>,
    headers: HeaderMap,
    body: FileBody<Attachment>,
) -> ApiResult<Created<ReleaseAsset>> {
    let access = call.access(&path, UPLOAD_ASSET).await?;
    let upload = body.open(&call.body_limits, access.caller_id(), call.max_asset_bytes).await?;
    let UploadQuery { name } = query.read()?;
    let name = name.or_else(|| upload.name.clone()).unwrap_or_default();
    let release_id = params.id("id");
    let begin = BeginAssetUploadRequest {
        repository_id: access.id,
        release_id,
        name: name.clone(),
        user_id: access.caller_id(),
        token_id: access.token_id,
    };
    let begun = call.clients.releases().begin_asset_upload(call.request_without_token(begin)).await?.into_inner();
    let content_type = upload.content_type.clone();
    let stored = tokio::time::timeout(UPLOAD_TIMEOUT, store(&call, &access, &headers, &begun, upload));
    let stored = stored.await.map_err(|_| ApiError::unavailable())??;
    let request = CreateReleaseAssetRequest {
        // By its id, because the name may have moved to another repository.
        repository: Some(RepositoryRef::by_id(access.id)),
        release_id,
        name,
        file_id: begun.file_id,
        size_bytes: stored.size_bytes,
        sha256: stored.sha256,
        content_type,
    };
    // With the token, so that the permission is checked again after a long upload.
    let response = call.clients.releases().create_release_asset(call.request(request)).await?.into_inner();
    let asset = ReleaseAsset::new(require(response.asset, "asset")?, &access.urls)?;
    Ok(Created::at(format!("{}/assets/{}", access.urls.release(release_id), asset.id), asset))
}

async fn store(
    call: &ApiCall,
    access: &ResolvedAccess,
    headers: &HeaderMap,
    begun: &BeginAssetUploadResponse,
    upload: Upload,
) -> Result<StoredFile, ApiError> {
    let left = begun.quota.map(|quota| u64::try_from(quota.limit_bytes - quota.used_bytes).unwrap_or_default());
    let max_bytes = left.unwrap_or(u64::MAX).min(call.max_asset_bytes);
    let uri = format!("/git/{}/asset?file={}&max_bytes={max_bytes}", access.id, begun.file_id);
    let request = git_request(&uri, access, headers, &[]).ok_or_else(ApiError::internal)?;
    let (mut parts, _) = request.into_parts();
    parts.method = Method::PUT;
    let mut revoked = call.reauthorizer.until_revoked(access.reauthorization.clone());
    let sent = tokio::select! {
        sent = send(&call.git_client, Request::from_parts(parts, upload.content)) => sent,
        status = &mut revoked => return Err(status.into()),
    };
    drop(upload.permit);
    if upload.is_malformed.load(Ordering::Relaxed) {
        return Err(ApiError::bad_request("multipart body is malformed"));
    }
    let response = sent?;
    match response.status() {
        StatusCode::CREATED => {
            let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
            let size_bytes = header(FILE_SIZE_HEADER).and_then(|size| size.parse().ok());
            let sha256 = header(FILE_SHA256_HEADER).map(str::to_owned);
            let stored = size_bytes.zip(sha256).map(|(size_bytes, sha256)| StoredFile { size_bytes, sha256 });
            stored.ok_or_else(ApiError::internal)
        }
        StatusCode::REQUEST_TIMEOUT => {
            Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "request body did not arrive in time"))
        }
        StatusCode::INSUFFICIENT_STORAGE => {
            Err(ApiError::new(StatusCode::INSUFFICIENT_STORAGE, "the store's disk is full"))
        }
        StatusCode::PAYLOAD_TOO_LARGE if max_bytes < call.max_asset_bytes => Err(quota_exceeded(begun.quota)),
        _ => Err(error_of_response(&response, "release does not exist")),
    }
}

fn quota_exceeded(quota: Option<ByteQuota>) -> ApiError {
    metrics::counter!("ferrite_quota_refused_total", "kind" => "bytes").increment(1);
    let ByteQuota { used_bytes, limit_bytes } = quota.unwrap_or_default();
    let message = format!("storage quota exceeded: {used_bytes} of {limit_bytes} bytes used");
    ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, message)
}

async fn update(
    Authenticated(call): Authenticated,
    path: RepoPath,
    params: Params,
    body: RequestBody<ChangedReleaseAsset>,
) -> ApiResult<Json<ReleaseAsset>> {
    let (repository, ChangedReleaseAsset { name }, _permit) =
        call.repository_body(&path, operation::UPDATE_RELEASE_ASSET, body).await?;
    let request = UpdateReleaseAssetRequest {
        repository: Some(repository.clone()),
        release_id: params.id("id"),
        asset_id: params.id("asset"),
        name,
    };
    let response = call.clients.releases().update_release_asset(call.request(request)).await?.into_inner();
    let urls = call.links_of(repository).await?;
    Ok(Json(ReleaseAsset::new(require(response.asset, "asset")?, &urls)?))
}

async fn remove(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult<NoContent> {
    let request = DeleteReleaseAssetRequest {
        repository: Some(path.repository()),
        release_id: params.id("id"),
        asset_id: params.id("asset"),
    };
    call.clients.releases().delete_release_asset(call.request(request)).await?;
    Ok(NoContent)
}
