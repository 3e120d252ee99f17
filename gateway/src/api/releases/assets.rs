//! Files of releases: their entries, and uploads, which are piped to git-svc.

use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use ferrite_proto::asset::{FILE_SHA256_HEADER, FILE_SIZE_HEADER};
use ferrite_proto::operation::{self, UPLOAD_ASSET};
use ferrite_proto::repo::{
    BeginAssetUploadRequest, BeginAssetUploadResponse, ByteQuota, CreateReleaseAssetRequest, DeleteReleaseAssetRequest,
    GetReleaseAssetRequest, ListReleaseAssetsRequest, RepositoryRef, UpdateReleaseAssetRequest,
};

use crate::api::access::ResolvedAccess;
use crate::api::call::{ApiCall, Authenticated, MaybeAuthenticated, routes};
use crate::api::git::response::{error_of_response, git_request, send};
use crate::dto::{ReleaseAsset, require};
use crate::http::body::JsonBody;
use crate::http::error::{ApiError, ApiResult};
use crate::http::fields::FieldReader;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::{Params, RepoPath};
use crate::http::query::Query;
use crate::http::upload::Upload;

/// The part of a multipart body with the file.
const PART: &str = "attachment";
/// Deadline of an upload. git-svc has shorter ones itself.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(2 * 3600);

routes! {
    "/api/v1/repos/{owner}/{repo}/releases/{id}/assets" =>
        get list as operation::LIST_RELEASE_ASSETS,
        post upload as operation::CREATE_RELEASE_ASSET;
    "/api/v1/repos/{owner}/{repo}/releases/{id}/assets/{asset}" =>
        get get as operation::GET_RELEASE_ASSET,
        patch update as operation::UPDATE_RELEASE_ASSET,
        delete remove as operation::DELETE_RELEASE_ASSET;
}

/// A file that git-svc has stored.
struct StoredFile {
    size_bytes: i64,
    sha256: String,
}

async fn list(MaybeAuthenticated(call): MaybeAuthenticated, path: RepoPath, params: Params, query: Query) -> ApiResult {
    let request = ListReleaseAssetsRequest { repository: Some(path.repository()), release_id: params.id("id") };
    let response = call.clients.releases().list_release_assets(call.request(request)).await?.into_inner();
    let urls = call.links_of(path.repository()).await?;
    let page = query.page(PageLimits::WHOLE_LIST);
    let total = i64::try_from(response.assets.len()).unwrap_or(i64::MAX);
    let shown = page.of(response.assets).map(|asset| ReleaseAsset::new(asset, &urls));
    Ok(json::page(shown.collect::<Result<Vec<_>, _>>()?, query.headers(page, total, &call.links)))
}

async fn get(MaybeAuthenticated(call): MaybeAuthenticated, path: RepoPath, params: Params) -> ApiResult {
    let request = GetReleaseAssetRequest {
        repository: Some(path.repository()),
        release_id: params.id("id"),
        asset_id: params.id("asset"),
        ..GetReleaseAssetRequest::default()
    };
    let response = call.clients.releases().get_release_asset(call.request(request)).await?.into_inner();
    let urls = call.links_of(path.repository()).await?;
    Ok(json::ok(ReleaseAsset::new(require(response.asset, "asset")?, &urls)?))
}

async fn upload(
    Authenticated(call): Authenticated,
    path: RepoPath,
    params: Params,
    query: Query,
    headers: HeaderMap,
    request: Request<Body>,
) -> ApiResult {
    let access = call.access(&path, UPLOAD_ASSET).await?;
    let upload = Upload::open(request, &call.body_limits, access.caller_id(), call.max_asset_bytes, PART).await?;
    let name = query.text("name").filter(|name| !name.is_empty()).or_else(|| upload.name.clone()).unwrap_or_default();
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
        // By its id: its name may lead to another one by now.
        repository: Some(RepositoryRef::by_id(access.id)),
        release_id,
        name,
        file_id: begun.file_id,
        size_bytes: stored.size_bytes,
        sha256: stored.sha256,
        content_type,
    };
    // With the token, so that the permission is checked again: the upload may have taken long.
    let response = call.clients.releases().create_release_asset(call.request(request)).await?.into_inner();
    Ok(json::created(ReleaseAsset::new(require(response.asset, "asset")?, &access.urls)?))
}

/// Pipes a file to git-svc.
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

/// 422: the file does not fit into the quota of the owner.
fn quota_exceeded(quota: Option<ByteQuota>) -> ApiError {
    metrics::counter!("ferrite_quota_refused_total", "kind" => "bytes").increment(1);
    let ByteQuota { used_bytes, limit_bytes } = quota.unwrap_or_default();
    let message = format!("the repositories of the account take {used_bytes} bytes of its quota of {limit_bytes}");
    ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, message)
}

async fn update(Authenticated(call): Authenticated, path: RepoPath, params: Params, body: JsonBody) -> ApiResult {
    let name = |fields: &mut FieldReader| fields.optional_non_empty("name");
    let (repository, name) = call.decode_repository_body(&path, operation::UPDATE_RELEASE_ASSET, body, name).await?;
    let request = UpdateReleaseAssetRequest {
        repository: Some(repository.clone()),
        release_id: params.id("id"),
        asset_id: params.id("asset"),
        name,
    };
    let response = call.clients.releases().update_release_asset(call.request(request)).await?.into_inner();
    let urls = call.links_of(repository).await?;
    Ok(json::ok(ReleaseAsset::new(require(response.asset, "asset")?, &urls)?))
}

async fn remove(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult {
    let request = DeleteReleaseAssetRequest {
        repository: Some(path.repository()),
        release_id: params.id("id"),
        asset_id: params.id("asset"),
    };
    call.clients.releases().delete_release_asset(call.request(request)).await?;
    Ok(json::no_content())
}
