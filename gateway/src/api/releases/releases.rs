//! Releases of a repository. Callers without write permission cannot see drafts.

use ferrite_api_types::convert::{MissingField, require};
use ferrite_api_types::links::RepositoryLinks;
use ferrite_api_types::{Accounts, LongTexts, Time, User, shape};
use ferrite_proto::operation;
use ferrite_proto::repo::get_release_request::By;
use ferrite_proto::repo::{
    self, CreateReleaseRequest, DeleteReleaseRequest, GetReleaseRequest, ListReleasesRequest, UpdateReleaseRequest,
};
use ferrite_rpc::grpc::with_timeout;
use serde::Serialize;

use super::assets::ReleaseAsset;
use crate::api::access::PermissionCheck;
use crate::api::call::{ApiCall, Authenticated, MaybeAuthenticated, operations};
use crate::http::body_limits::MAX_TEXT_BODY_BYTES;
use crate::http::error::ApiResult;
use crate::http::filters::{OptionalFlag, QueryOf, filters};
use crate::http::page::WholeList;
use crate::http::path::{Params, RepoPath};
use crate::http::request::{Checked, Flag, LongText, NonEmpty, Optional, OrDefault, RequestBody, Text, fields};
use crate::http::response::{Created, Json, NoContent, TextList};
use crate::http::routes::variant;
use crate::upstream::clients::LONG_CALL_DEADLINE;

operations! {
    "/api/v1/repos/{owner}/{repo}/releases" =>
        get list as operation::LIST_RELEASES,
        post create as operation::CREATE_RELEASE;
    "/api/v1/repos/{owner}/{repo}/releases/latest" =>
        get get_latest as variant(operation::GET_RELEASE, "Latest");
    "/api/v1/repos/{owner}/{repo}/releases/tags/{*tag}" =>
        get get_by_tag as variant(operation::GET_RELEASE, "ByTag"),
        delete remove_by_tag as variant(operation::DELETE_RELEASE, "ByTag");
    "/api/v1/repos/{owner}/{repo}/releases/{id}" =>
        get get as operation::GET_RELEASE,
        patch update as operation::UPDATE_RELEASE,
        delete remove as operation::DELETE_RELEASE;
}

filters! {
    /// Filters of releases.
    struct ReleaseFilters {
        /// `true` for only drafts, `false` for only published releases. The default is both.
        is_draft as "draft": OptionalFlag = false,
        /// `true` for only prereleases, `false` for only others. The default is both.
        is_prerelease as "pre-release": OptionalFlag = false,
    }
}

fields! {
    /// A new release.
    #[max_bytes = MAX_TEXT_BODY_BYTES]
    struct NewRelease {
        tag_name: Checked<Text<250>> = "v1.0",
        /// The notes, in Markdown.
        body: OrDefault<LongText> = "The first release.",
        /// The branch or commit from which the tag is created if it does not exist; empty for the
        /// default branch.
        target_commitish: OrDefault<Text<1000>> = "main",
        /// The title, which can be empty.
        name: OrDefault<Text<255>> = "Version 1.0",
        /// Whether this is a draft, visible only to callers with write permission.
        draft: OrDefault<Flag> = false,
        /// Whether this is a prerelease, not ready for general use.
        prerelease: OrDefault<Flag> = false,
    }
}

fields! {
    /// Changes of a release.
    #[max_bytes = MAX_TEXT_BODY_BYTES]
    struct ChangedRelease {
        /// The notes, in Markdown. An empty text changes nothing.
        body: NonEmpty<LongText> = "The first release, with notes.",
        /// The tag, with the rules for a new release. An empty name changes nothing.
        tag_name: NonEmpty<Text<250>> = "v1.0.1",
        /// The branch or commit from which the tag is created if it does not exist. An empty text
        /// changes nothing. Ignored if the tag of a published release stays.
        target_commitish: NonEmpty<Text<1000>> = "main",
        /// The title. An empty text changes nothing.
        name: NonEmpty<Text<255>> = "Version 1.0.1",
        /// False publishes a draft; true turns a published release into a draft.
        draft: Optional<Flag> = false,
        /// Whether this is a prerelease, not ready for general use.
        prerelease: Optional<Flag> = false,
    }
}

shape! {
    /// A release.
    #[derive(Clone, Debug, Serialize)]
    struct Release {
        id: i64,
        tag_name: String,
        /// The branch or commit from which the tag is created if it does not exist when the release
        /// is published.
        target_commitish: String,
        /// The title, which can be empty.
        name: String,
        /// The notes, in Markdown.
        body: String,
        /// Whether `body` is cut.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        truncated: bool,
        url: String,
        html_url: String,
        tarball_url: String,
        zipball_url: String,
        /// Whether this is a draft, visible only to callers with write permission.
        draft: bool,
        /// Whether this is a prerelease, not ready for general use.
        prerelease: bool,
        created_at: Time,
        /// The time of publication; null for a draft.
        published_at: Option<Time>,
        author: User,
        assets: Vec<ReleaseAsset>,
    }
}

impl Release {
    /// Converts a release. A deleted author is shown as a placeholder.
    fn new(release: repo::Release, urls: &RepositoryLinks) -> Result<Self, MissingField> {
        let nobody = || Accounts::default().by_id(0, urls.site());
        let assets = release.assets.into_iter().map(|asset| ReleaseAsset::new(asset, urls));
        Ok(Self {
            id: release.id,
            url: urls.release(release.id),
            html_url: urls.release_html(&release.tag_name),
            tarball_url: urls.archive(&release.tag_name, "tar.gz"),
            zipball_url: urls.archive(&release.tag_name, "zip"),
            tag_name: release.tag_name,
            target_commitish: release.target,
            name: release.title,
            body: release.body,
            truncated: release.is_truncated,
            draft: release.is_draft,
            prerelease: release.is_prerelease,
            created_at: Time::new(release.create_time, "create_time")?,
            published_at: Time::optional(release.publish_time, "publish_time")?,
            author: release.author.map_or_else(nobody, |author| User::new(author, urls.site())),
            assets: assets.collect::<Result<_, _>>()?,
        })
    }
}

impl LongTexts for Release {
    fn for_each_text(&mut self, visit: &mut dyn FnMut(&mut String, &mut bool)) {
        visit(&mut self.body, &mut self.truncated);
    }
}

async fn list(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    query: WholeList,
    filters: QueryOf<ReleaseFilters>,
) -> ApiResult<TextList<Release>> {
    let check = PermissionCheck::of(operation::LIST_RELEASES).on_repository(path.repository());
    let ReleaseFilters { is_draft, is_prerelease } = call.after_permission(check, filters.read()).await?;
    let request = ListReleasesRequest {
        repository: Some(path.repository()),
        page: query.page.number,
        page_size: query.page.size,
        is_draft,
        is_prerelease,
    };
    let response = call.clients.releases().list_releases(call.request(request)).await?.into_inner();
    let urls = call.links_of(path.repository()).await?;
    let releases = response.releases.into_iter().map(|release| Release::new(release, &urls));
    let releases = releases.collect::<Result<Vec<_>, _>>()?;
    Ok(query.text_list(releases, response.total_count, &call.links))
}

async fn get(MaybeAuthenticated(call): MaybeAuthenticated, path: RepoPath, params: Params) -> ApiResult<Json<Release>> {
    find(&call, &path, By::ReleaseId(params.id("id"))).await
}

async fn get_latest(MaybeAuthenticated(call): MaybeAuthenticated, path: RepoPath) -> ApiResult<Json<Release>> {
    find(&call, &path, By::IsLatest(true)).await
}

async fn get_by_tag(MaybeAuthenticated(call): MaybeAuthenticated, path: RepoPath) -> ApiResult<Json<Release>> {
    find(&call, &path, By::TagName(tag_name(&path))).await
}

/// Returns the tag in a path. Invalid UTF-8 becomes U+FFFD; repo-svc then finds no such tag.
fn tag_name(path: &RepoPath) -> String {
    String::from_utf8_lossy(path.rest.strip_prefix(b"tags/").unwrap_or_default()).into_owned()
}

async fn find(call: &ApiCall, path: &RepoPath, by: By) -> ApiResult<Json<Release>> {
    let request = GetReleaseRequest { repository: Some(path.repository()), by: Some(by) };
    let response = call.clients.releases().get_release(call.request(request)).await?.into_inner();
    let urls = call.links_of(path.repository()).await?;
    Ok(Json(Release::new(require(response.release, "release")?, &urls)?))
}

async fn create(
    Authenticated(call): Authenticated,
    path: RepoPath,
    body: RequestBody<NewRelease>,
) -> ApiResult<Created<Release>> {
    let (repository, new, _permit) = call.repository_body(&path, operation::CREATE_RELEASE, body).await?;
    let (repository, urls) = call.id_and_links_of(repository).await?;
    let request = CreateReleaseRequest {
        repository: Some(repository),
        tag_name: new.tag_name,
        target: new.target_commitish,
        title: new.name,
        body: new.body,
        is_draft: new.draft,
        is_prerelease: new.prerelease,
    };
    let request = with_timeout(call.request(request), LONG_CALL_DEADLINE);
    let response = call.clients.releases().create_release(request).await?.into_inner();
    let release = Release::new(require(response.release, "release")?, &urls)?;
    Ok(Created::at(release.url.clone(), release))
}

async fn update(
    Authenticated(call): Authenticated,
    path: RepoPath,
    params: Params,
    body: RequestBody<ChangedRelease>,
) -> ApiResult<Json<Release>> {
    let (repository, changed, _permit) = call.repository_body(&path, operation::UPDATE_RELEASE, body).await?;
    let (repository, urls) = call.id_and_links_of(repository).await?;
    let request = UpdateReleaseRequest {
        repository: Some(repository),
        release_id: params.id("id"),
        tag_name: changed.tag_name,
        target: changed.target_commitish,
        title: changed.name,
        body: changed.body,
        is_draft: changed.draft,
        is_prerelease: changed.prerelease,
    };
    let request = with_timeout(call.request(request), LONG_CALL_DEADLINE);
    let response = call.clients.releases().update_release(request).await?.into_inner();
    Ok(Json(Release::new(require(response.release, "release")?, &urls)?))
}

async fn remove(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult<NoContent> {
    delete(&call, &path, params.id("id"), String::new()).await
}

async fn remove_by_tag(Authenticated(call): Authenticated, path: RepoPath) -> ApiResult<NoContent> {
    delete(&call, &path, 0, tag_name(&path)).await
}

/// Deletes a release by its id, or by its tag if the id is zero.
async fn delete(call: &ApiCall, path: &RepoPath, release_id: i64, tag_name: String) -> ApiResult<NoContent> {
    let request = DeleteReleaseRequest { repository: Some(path.repository()), release_id, tag_name };
    call.clients.releases().delete_release(call.request(request)).await?;
    Ok(NoContent)
}

#[cfg(test)]
mod tests {
    use ferrite_api_types::links::Links;
    use ferrite_core::timestamp;
    use serde_json::json;

    use super::*;

    #[test]
    fn urls_of_a_release_encode_its_tag_and_names() {
        let urls = Links::new("http://git.example.com", "h:22").repository("bob", "demo");
        let asset = repo::ReleaseAsset {
            id: 4,
            name: "a b.zip".into(),
            size_bytes: 3,
            sha256: "ff".into(),
            download_count: 2,
            create_time: Some(timestamp(0)),
            file_id: "0".repeat(32),
            tag_name: "v1/rc#1".into(),
            ..repo::ReleaseAsset::default()
        };
        let release = repo::Release {
            id: 9,
            tag_name: "v1/rc#1".into(),
            target: "main".into(),
            create_time: Some(timestamp(0)),
            is_draft: true,
            assets: vec![asset],
            ..repo::Release::default()
        };
        let shown = serde_json::to_value(Release::new(release, &urls).unwrap()).unwrap();
        let expected = json!({
            "id": 9, "tag_name": "v1/rc#1", "target_commitish": "main", "name": "", "body": "", "draft": true,
            "prerelease": false, "created_at": "1970-01-01T00:00:00Z", "published_at": null,
            "url": "http://git.example.com/api/v1/repos/bob/demo/releases/9",
            "html_url": "http://git.example.com/bob/demo/releases/tag/v1%2Frc%231",
            "tarball_url": "http://git.example.com/api/v1/repos/bob/demo/archive/v1/rc%231.tar.gz",
            "zipball_url": "http://git.example.com/api/v1/repos/bob/demo/archive/v1/rc%231.zip",
            "author": {
                "id": 0, "username": "ghost", "login": "ghost", "full_name": "",
                "email": "ghost@noreply.git.example.com", "avatar_url": "http://git.example.com/avatars/0",
                "visibility": "public",
            },
            "assets": [{
                "id": 4, "name": "a b.zip", "size": 3, "download_count": 2, "created_at": "1970-01-01T00:00:00Z",
                "uuid": shown["assets"][0]["uuid"], "sha256": "ff",
                "browser_download_url": "http://git.example.com/bob/demo/releases/download/v1%2Frc%231/a%20b.zip",
            }],
        });
        assert_eq!(shown, expected);
        assert_eq!(shown["assets"][0]["uuid"].as_str().unwrap().len(), 36);
    }
}
