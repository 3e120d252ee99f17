//! Facts about this server that clients ask for before anything else. The gateway knows them, and
//! looks at no credentials: clients of Gitea send theirs with the first request, valid or not.

use ferrite_api_types::shape;
use ferrite_proto::operation;
use serde::Serialize;

use super::call::{Public, operations};
use super::issues::reactions;
use crate::http::error::ApiResult;
use crate::http::page::{CommitList, ExtensionList, FollowList, LargeList, PageSizes, WholeList};
use crate::http::response::Json;
use crate::http::routes::variant;

/// The version of Gitea whose API this is nearest to, by which its clients choose what they ask for.
/// It must stay SemVer, and must not contain `gitea-`, which stands for Forgejo.
const VERSION: &str = concat!("1.25.0+ferrite.", env!("CARGO_PKG_VERSION"));
const PAGE_SIZES: [PageSizes; 5] =
    [WholeList::SIZES, LargeList::SIZES, CommitList::SIZES, FollowList::SIZES, ExtensionList::SIZES];
/// The limits that git-svc has for a tree and for a blob as JSON.
const MAX_TREE_ENTRIES: i64 = 100_000;
const MAX_BLOB_BYTES: i64 = 32 << 20;

operations! {
    "/api/v1/version" => get version as operation::GET_VERSION;
    "/api/v1/settings/api" => get api as variant(operation::GET_SETTINGS, "OfApi");
    "/api/v1/settings/ui" => get ui as variant(operation::GET_SETTINGS, "OfUi");
    "/api/v1/settings/repository" => get repository as variant(operation::GET_SETTINGS, "OfRepositories");
    "/api/v1/settings/attachment" => get attachment as variant(operation::GET_SETTINGS, "OfAttachments");
}

shape! {
    /// The version of this server.
    #[derive(Clone, Debug, Serialize)]
    struct ServerVersion {
        /// The version of Gitea's API that this one is like, and the version of Ferrite.
        version: &'static str,
    }
}

shape! {
    /// Limits of responses. They differ between lists, so these hold for every one.
    #[derive(Clone, Debug, Serialize)]
    struct ApiSettings {
        /// The `limit` that every list accepts.
        max_response_items: i32,
        /// The smallest default page size of all lists.
        default_paging_num: i32,
        /// The number of entries on a page of a tree without `per_page`.
        default_git_trees_per_page: i64,
        /// The largest blob in JSON, in bytes.
        default_max_blob_size: i64,
    }
}

shape! {
    /// Settings of the web interface.
    #[derive(Clone, Debug, Serialize)]
    struct UiSettings {
        /// The contents of reactions.
        allowed_reactions: Vec<&'static str>,
    }
}

shape! {
    /// What cannot be used on this server.
    #[derive(Clone, Debug, Serialize)]
    struct RepositorySettings {
        mirrors_disabled: bool,
        http_git_disabled: bool,
        migrations_disabled: bool,
        stars_disabled: bool,
        lfs_disabled: bool,
        time_tracking_disabled: bool,
    }
}

shape! {
    /// Files that are attached to issues and comments.
    #[derive(Clone, Debug, Serialize)]
    struct AttachmentSettings {
        /// False: there are no such files. Files of releases are not meant.
        enabled: bool,
        /// The types of files, separated by commas.
        allowed_types: &'static str,
        /// The size of a file in MiB.
        max_size: i64,
        /// The number of files.
        max_files: i64,
    }
}

async fn version(_: Public) -> ApiResult<Json<ServerVersion>> {
    Ok(Json(ServerVersion { version: VERSION }))
}

async fn api(_: Public) -> ApiResult<Json<ApiSettings>> {
    let least = |size: fn(&PageSizes) -> i32| PAGE_SIZES.iter().map(size).min().unwrap_or_default();
    Ok(Json(ApiSettings {
        max_response_items: least(|sizes| sizes.max),
        default_paging_num: least(|sizes| sizes.default),
        default_git_trees_per_page: MAX_TREE_ENTRIES,
        default_max_blob_size: MAX_BLOB_BYTES,
    }))
}

async fn ui(_: Public) -> ApiResult<Json<UiSettings>> {
    Ok(Json(UiSettings { allowed_reactions: reactions::contents() }))
}

async fn repository(_: Public) -> ApiResult<Json<RepositorySettings>> {
    Ok(Json(RepositorySettings {
        mirrors_disabled: false,
        http_git_disabled: false,
        migrations_disabled: false,
        stars_disabled: false,
        lfs_disabled: true,
        time_tracking_disabled: true,
    }))
}

async fn attachment(_: Public) -> ApiResult<Json<AttachmentSettings>> {
    Ok(Json(AttachmentSettings { enabled: false, allowed_types: "", max_size: 0, max_files: 0 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_semver_of_gitea_with_ours_as_metadata() {
        let (core, build) = VERSION.split_once('+').unwrap();
        let numbers: Vec<u32> = core.split('.').map(|part| part.parse().unwrap()).collect();
        assert_eq!(numbers, [1, 25, 0]);
        assert_eq!(build, format!("ferrite.{}", env!("CARGO_PKG_VERSION")));
        let is_allowed = |char: char| char.is_ascii_alphanumeric() || matches!(char, '.' | '-');
        assert!(build.chars().all(is_allowed) && !VERSION.contains("gitea-"), "{VERSION}");
    }

    #[tokio::test]
    async fn limits_of_the_api_hold_for_every_list() {
        let Json(settings) = api(Public).await.unwrap();
        assert_eq!((settings.max_response_items, settings.default_paging_num), (40, 10));
    }
}
