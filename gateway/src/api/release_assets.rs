//! Files of releases: their entries, and uploads, which are piped to git-svc.

use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use ferrite_proto::asset::{FILE_SHA256_HEADER, FILE_SIZE_HEADER};
use ferrite_proto::operation::UPLOAD_ASSET;
use ferrite_proto::repo::{
    BeginAssetUploadRequest, BeginAssetUploadResponse, ByteQuota, CreateReleaseAssetRequest, DeleteReleaseAssetRequest,
    GetReleaseAssetRequest, ListReleaseAssetsRequest, UpdateReleaseAssetRequest,
};

use super::access::{Access, PermissionCheck};
use super::git_response::{error_of_response, git_request, send};
use super::operation;
use super::state::ApiState;
use crate::auth::{Authenticated, MaybeAuthenticated};
use crate::dto::{ReleaseAsset, require};
use crate::http::body::JsonBody;
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::{Params, RepoPath};
use crate::http::query::Query;
use crate::http::routes::routes;
use crate::http::upload::{FileBody, Upload};

/// The part of a multipart body with the file.
const PART: &str = "attachment";
/// Deadline of an upload. git-svc has shorter ones itself.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(2 * 3600);

routes! { ApiState:
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

async fn list(
    State(api): State<ApiState>,
    MaybeAuthenticated(context): MaybeAuthenticated,
    path: RepoPath,
    params: Params,
    query: Query,
) -> Result<Response, ApiError> {
    let request = ListReleaseAssetsRequest { repository: Some(path.repository()), release_id: params.id("id") };
    let answer = api.clients.releases().list_release_assets(context.request(request)).await?.into_inner();
    let urls = api.links_of(&context, &path).await?;
    let page = query.page(PageLimits::WHOLE_LIST);
    let total = i64::try_from(answer.assets.len()).unwrap_or(i64::MAX);
    let size = usize::try_from(page.size).unwrap_or(usize::MAX);
    let before = usize::try_from(page.number - 1).unwrap_or(usize::MAX).saturating_mul(size);
    let shown = answer.assets.into_iter().skip(before).take(size).map(|asset| ReleaseAsset::new(asset, &urls));
    Ok(json::page(shown.collect::<Result<Vec<_>, _>>()?, query.headers(page, total, &api.links)))
}

async fn get(
    State(api): State<ApiState>,
    MaybeAuthenticated(context): MaybeAuthenticated,
    path: RepoPath,
    params: Params,
) -> Result<Response, ApiError> {
    let request = GetReleaseAssetRequest {
        repository: Some(path.repository()),
        release_id: params.id("id"),
        asset_id: params.id("asset"),
        ..GetReleaseAssetRequest::default()
    };
    let answer = api.clients.releases().get_release_asset(context.request(request)).await?.into_inner();
    let urls = api.links_of(&context, &path).await?;
    Ok(json::ok(ReleaseAsset::new(require(answer.asset, "asset")?, &urls)?))
}

async fn upload(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    params: Params,
    query: Query,
    headers: HeaderMap,
    body: FileBody,
) -> Result<Response, ApiError> {
    let access = api.access(&context, &path, UPLOAD_ASSET).await?;
    let upload = body.open(&api.body_limits, access.caller_id(), api.max_asset_bytes, PART).await?;
    let name = query.text("name").filter(|name| !name.is_empty()).or_else(|| upload.name.clone()).unwrap_or_default();
    let release_id = params.id("id");
    let begin = BeginAssetUploadRequest {
        repository_id: access.id,
        release_id,
        name: name.clone(),
        user_id: access.caller_id(),
        token_id: access.token_id,
    };
    let begun = api.clients.releases().begin_asset_upload(context.request_without_token(begin)).await?.into_inner();
    let content_type = upload.content_type.clone();
    let stored = tokio::time::timeout(UPLOAD_TIMEOUT, store(&api, &access, &headers, &begun, upload));
    let stored = stored.await.map_err(|_| ApiError::unavailable())??;
    let request = CreateReleaseAssetRequest {
        repository: Some(path.repository()),
        release_id,
        name,
        file_id: begun.file_id,
        size_bytes: stored.size_bytes,
        sha256: stored.sha256,
        content_type,
    };
    // With the token, so that the permission is checked again: the upload may have taken long.
    let answer = api.clients.releases().create_release_asset(context.request(request)).await?.into_inner();
    Ok(json::created(ReleaseAsset::new(require(answer.asset, "asset")?, &access.urls)?))
}

/// Pipes a file to git-svc.
async fn store(
    api: &ApiState,
    access: &Access,
    headers: &HeaderMap,
    begun: &BeginAssetUploadResponse,
    upload: Upload,
) -> Result<StoredFile, ApiError> {
    let left = begun.quota.map(|quota| u64::try_from(quota.limit_bytes - quota.used_bytes).unwrap_or_default());
    let max_bytes = left.unwrap_or(u64::MAX).min(api.max_asset_bytes);
    let uri = format!("/git/{}/asset?file={}&max_bytes={max_bytes}", access.id, begun.file_id);
    let request = git_request(&uri, access, headers, &[]).ok_or_else(ApiError::internal)?;
    let (mut parts, _) = request.into_parts();
    parts.method = Method::PUT;
    let mut revoked = api.reauthorizer.until_revoked(access.reauthorization.clone());
    let sent = tokio::select! {
        sent = send(&api.git_client, Request::from_parts(parts, upload.content)) => sent,
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
        StatusCode::PAYLOAD_TOO_LARGE if max_bytes < api.max_asset_bytes => Err(quota_exceeded(begun.quota)),
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

async fn update(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    params: Params,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let check = PermissionCheck::of(operation::UPDATE_RELEASE_ASSET).on_repository(path.repository());
    let decode = api.decode_body(&context, check, body, |fields| UpdateReleaseAssetRequest {
        repository: Some(path.repository()),
        release_id: params.id("id"),
        asset_id: params.id("asset"),
        name: fields.optional_non_empty("name"),
    });
    let request = context.request(decode.await?);
    let answer = api.clients.releases().update_release_asset(request).await?.into_inner();
    let urls = api.links_of(&context, &path).await?;
    Ok(json::ok(ReleaseAsset::new(require(answer.asset, "asset")?, &urls)?))
}

async fn remove(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    params: Params,
) -> Result<Response, ApiError> {
    let request = DeleteReleaseAssetRequest {
        repository: Some(path.repository()),
        release_id: params.id("id"),
        asset_id: params.id("asset"),
    };
    api.clients.releases().delete_release_asset(context.request(request)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
