//! Downloads of release files, streamed from git-svc. The URL stays the same until the file is
//! renamed.

use axum::body::Body;
use axum::http::header::{
    CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE,
    LAST_MODIFIED, RANGE,
};
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use axum::response::IntoResponse;
use chrono::DateTime;
use ferrite_api_types::convert::require;
use ferrite_core::headers::matches_etag;
use ferrite_proto::operation::ASSET;
use ferrite_proto::repo::{self, AssetDownloads, CountDownloadsRequest, GetReleaseAssetRequest};
use ferrite_rpc::grpc::with_timeout;
use futures_util::TryStreamExt;
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::api::call::{ApiCall, MaybeAuthenticated, operations};
use crate::api::git::response::{
    git_request, insert_content_disposition, response_with_file, response_without_file, send_guarded,
};
use crate::api::state::ApiState;
use crate::http::caching;
use crate::http::error::{ApiError, ApiResult};
use crate::http::headers::{DatedRangeHeaders, Headers};
use crate::http::path::PagePath;
use crate::http::response::{File, Media};
use crate::upstream::clients::CALL_DEADLINE;

const NOT_FOUND: &str = "file does not exist";

operations! {
    "/{owner}/{repo}/releases/download/{*file}" => get download as ASSET;
}

/// The content of a file. Its media type is that of the upload.
enum AssetContent {}

impl Media for AssetContent {
    const TYPES: &'static [&'static str] = &["*/*"];
    const HAS_DATE: bool = true;
}

async fn download(
    MaybeAuthenticated(call): MaybeAuthenticated,
    PagePath(path): PagePath,
    method: Method,
    headers: Headers<DatedRangeHeaders>,
) -> ApiResult<File<AssetContent>> {
    let (tag_name, name) = split_file(&path.rest);
    let request = GetReleaseAssetRequest {
        repository: Some(path.repository()),
        tag_name,
        name,
        ..GetReleaseAssetRequest::default()
    };
    let asset = call.clients.releases().get_release_asset(call.request(request)).await?.into_inner().asset;
    let asset = require(asset, "asset")?;
    let access = call.access(&path, ASSET).await?;
    let version = FileVersion::of(&asset);
    if version.is_known(&headers.map) {
        let mut response = StatusCode::NOT_MODIFIED.into_response();
        version.insert_into(response.headers_mut());
        return Ok(File::from(response));
    }
    let uri = format!("/git/{}/asset?file={}&sha256={}", access.id, asset.file_id, asset.sha256);
    let mut request = git_request(&uri, &access, &headers.map, &[IF_RANGE, RANGE]).ok_or_else(ApiError::internal)?;
    let is_head = method == Method::HEAD;
    if is_head {
        *request.method_mut() = Method::HEAD;
    }
    // The deadline is for the headers: the body takes as long as the client reads.
    let (response, revoked) = send_guarded(&call, &access, request, CALL_DEADLINE).await?;
    match response.status() {
        StatusCode::OK | StatusCode::PARTIAL_CONTENT => {
            let mut response = file_response(&call, response, &asset, is_head);
            version.insert_into(response.headers_mut());
            Ok(File::from(response.map(|body| call.reauthorizer.guard(body, revoked))))
        }
        _ => response_without_file(&response, NOT_FOUND, "range starts beyond the end of the file").map(File::from),
    }
}

/// Distinguishes files at the same URL: the hash, which is the entity tag, and the upload time.
struct FileVersion {
    tag: String,
    date: Option<HeaderValue>,
}

impl FileVersion {
    fn of(asset: &repo::ReleaseAsset) -> Self {
        let uploaded = asset.create_time.and_then(|time| DateTime::from_timestamp(time.seconds, 0));
        let date = uploaded.map(|time| time.format("%a, %d %b %Y %H:%M:%S GMT").to_string());
        Self { tag: format!("\"{}\"", asset.sha256), date: date.and_then(|date| HeaderValue::try_from(date).ok()) }
    }

    /// Whether the client has this file: by its tags, and without tags by the exact date. A later
    /// date does not match, because an older file can be renamed to take the place of a newer one.
    fn is_known(&self, headers: &HeaderMap) -> bool {
        if headers.contains_key(IF_NONE_MATCH) {
            return matches_etag(headers.get_all(IF_NONE_MATCH), &self.tag);
        }
        self.date.is_some() && headers.get(IF_MODIFIED_SINCE) == self.date.as_ref()
    }

    fn insert_into(&self, headers: &mut HeaderMap) {
        if let Ok(tag) = HeaderValue::from_str(&self.tag) {
            headers.insert(ETAG, tag);
        }
        if let Some(date) = &self.date {
            headers.insert(LAST_MODIFIED, date.clone());
        }
        caching::depends_on_caller(headers);
    }
}

/// Splits `download/{tag}/{name}` into tag and name: a tag can have slashes, a name cannot. An
/// invalid path becomes a tag that does not exist.
fn split_file(rest: &[u8]) -> (String, String) {
    let text = String::from_utf8_lossy(rest.strip_prefix(b"download/").unwrap_or_default()).into_owned();
    match text.rsplit_once('/') {
        Some((tag_name, name)) if !tag_name.is_empty() => (tag_name.to_owned(), name.to_owned()),
        _ => ("\u{fffd}".to_owned(), String::new()),
    }
}

fn file_response(
    call: &ApiCall,
    upstream: Response<Incoming>,
    asset: &repo::ReleaseAsset,
    is_head: bool,
) -> Response<Body> {
    let (parts, body) = upstream.into_parts();
    let is_counted = !is_head && is_whole(parts.status, &parts.headers, asset.size_bytes);
    let mut count = is_counted.then(|| DownloadCounter::new(call, asset));
    let content = body.into_data_stream().inspect_ok(move |bytes| {
        if let Some(counter) = &mut count {
            counter.sent(bytes.len());
        }
    });
    let mut response = response_with_file(&parts, content);
    let headers = response.headers_mut();
    let content_type = HeaderValue::from_str(&asset.content_type);
    headers.insert(CONTENT_TYPE, content_type.unwrap_or(HeaderValue::from_static("application/octet-stream")));
    // Browsers that open the URL run no scripts in the file.
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));
    insert_content_disposition(headers, asset.name.as_bytes());
    response
}

fn is_whole(status: StatusCode, headers: &HeaderMap, size_bytes: i64) -> bool {
    let whole = format!("bytes 0-{}/{size_bytes}", size_bytes - 1);
    status == StatusCode::OK || headers.get(CONTENT_RANGE).is_some_and(|range| range.as_bytes() == whole.as_bytes())
}

/// Counts a download once the last byte of the file is handed to the connection.
struct DownloadCounter {
    state: ApiState,
    asset_id: i64,
    left_bytes: u64,
}

impl DownloadCounter {
    fn new(call: &ApiCall, asset: &repo::ReleaseAsset) -> Self {
        let left_bytes = u64::try_from(asset.size_bytes).unwrap_or_default();
        let counter = Self { state: call.state.clone(), asset_id: asset.id, left_bytes };
        if left_bytes == 0 {
            counter.count();
        }
        counter
    }

    fn sent(&mut self, bytes: usize) {
        if self.left_bytes > 0 {
            self.left_bytes = self.left_bytes.saturating_sub(bytes as u64);
            if self.left_bytes == 0 {
                self.count();
            }
        }
    }

    fn count(&self) {
        let downloads = vec![AssetDownloads { asset_id: self.asset_id, count: 1 }];
        let request = with_timeout(CountDownloadsRequest { downloads }, CALL_DEADLINE);
        let mut releases = self.state.clients.releases();
        self.state.life.spawn("count download", async move {
            if let Err(status) = releases.count_downloads(request).await {
                tracing::debug!(%status, "cannot count a download");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;

    #[test]
    fn a_file_is_known_by_the_tags_that_the_client_names_or_else_by_its_date() {
        let create_time = Some(prost_types::Timestamp { seconds: 1_767_315_845, nanos: 7 });
        let asset = repo::ReleaseAsset { sha256: "ab".into(), create_time, ..Default::default() };
        let version = FileVersion::of(&asset);
        let date = "Fri, 02 Jan 2026 01:04:05 GMT";
        let is_known = |headers: &[(HeaderName, &str)]| {
            let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap()));
            version.is_known(&headers.collect())
        };
        for (headers, expected) in [
            (&[][..], false),
            (&[(IF_NONE_MATCH, "\"ab\"")], true),
            (&[(IF_NONE_MATCH, "\"x\"")], false),
            (&[(IF_MODIFIED_SINCE, date)], true),
            (&[(IF_MODIFIED_SINCE, "Fri, 02 Jan 2026 01:04:06 GMT")], false),
            (&[(IF_MODIFIED_SINCE, "Fri, 02 Jan 2026 01:04:04 GMT")], false),
            (&[(IF_NONE_MATCH, "\"x\""), (IF_MODIFIED_SINCE, date)], false),
            (&[(IF_NONE_MATCH, "\"ab\""), (IF_MODIFIED_SINCE, "never")], true),
        ] {
            assert_eq!(is_known(headers), expected, "{headers:?}");
        }
        let mut headers = HeaderMap::new();
        version.insert_into(&mut headers);
        assert_eq!((&headers["etag"], &headers["last-modified"]), (&"\"ab\"".parse().unwrap(), &date.parse().unwrap()));
        assert_eq!(&headers["cache-control"], "private, no-cache");
    }

    #[test]
    fn the_name_is_behind_the_last_slash() {
        let split = |rest: &str| split_file(rest.as_bytes());
        assert_eq!(split("download/v1/a.zip"), ("v1".into(), "a.zip".into()));
        assert_eq!(split("download/v1/rc/a.zip"), ("v1/rc".into(), "a.zip".into()));
        for wrong in ["download/a.zip", "download/", "download//a.zip", "other/v1/a.zip"] {
            assert_eq!(split(wrong), ("\u{fffd}".into(), String::new()), "{wrong}");
        }
    }

    #[test]
    fn a_range_counts_if_it_is_the_whole_file() {
        let ranged = |range: &'static str| {
            let headers = HeaderMap::from_iter([(CONTENT_RANGE, HeaderValue::from_static(range))]);
            is_whole(StatusCode::PARTIAL_CONTENT, &headers, 10)
        };
        assert!(is_whole(StatusCode::OK, &HeaderMap::new(), 10));
        assert!(ranged("bytes 0-9/10"));
        assert!(!ranged("bytes 0-8/10") && !ranged("bytes 1-9/10"));
        assert!(!is_whole(StatusCode::PARTIAL_CONTENT, &HeaderMap::new(), 10));
    }
}
