//! Releases and the entries of their files. The bytes of files and the tags are on the store: a tag is made before its release, and
//! the bytes of a file are there before its entry, and removed after it.

mod begin_asset_upload;
mod count_downloads;
mod create_release;
mod create_release_asset;
mod delete_release;
mod delete_release_asset;
mod encode;
mod get_release;
mod get_release_asset;
mod list_release_assets;
mod list_releases;
mod lookup;
mod publish;
mod storage;
mod update_release;
mod update_release_asset;

use ferrite_proto::repo::release_service_server::ReleaseService;
use ferrite_proto::repo::*;

use super::dispatch::permitted_service;

permitted_service!(ReleaseService {
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
