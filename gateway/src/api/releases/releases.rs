//! Releases of a repository. Drafts do not exist for callers without write permission.

use ferrite_proto::operation;
use ferrite_proto::repo::get_release_request::By;
use ferrite_proto::repo::{
    CreateReleaseRequest, DeleteReleaseRequest, GetReleaseRequest, ListReleasesRequest, UpdateReleaseRequest,
};
use ferrite_rpc::grpc::with_timeout;

use crate::api::call::{ApiCall, Authenticated, MaybeAuthenticated, routes};
use crate::api::issues::limit_text;
use crate::dto::{Release, require};
use crate::http::body::JsonBody;
use crate::http::body_limits::MAX_TEXT_BODY_BYTES;
use crate::http::error::ApiResult;
use crate::http::fields::FieldReader;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::{Params, RepoPath};
use crate::http::query::Query;
use crate::upstream::clients::LONG_CALL_DEADLINE;

routes! {
    "/api/v1/repos/{owner}/{repo}/releases" =>
        get list as operation::LIST_RELEASES,
        post create as operation::CREATE_RELEASE;
    "/api/v1/repos/{owner}/{repo}/releases/latest" => get get_latest as operation::GET_RELEASE;
    "/api/v1/repos/{owner}/{repo}/releases/tags/{*tag}" => get get_by_tag as operation::GET_RELEASE;
    "/api/v1/repos/{owner}/{repo}/releases/{id}" =>
        get get as operation::GET_RELEASE,
        patch update as operation::UPDATE_RELEASE,
        delete remove as operation::DELETE_RELEASE;
}

async fn list(MaybeAuthenticated(call): MaybeAuthenticated, path: RepoPath, query: Query) -> ApiResult {
    let page = query.page(PageLimits::WHOLE_LIST);
    let request = ListReleasesRequest { repository: Some(path.repository()), page: page.number, page_size: page.size };
    let response = call.clients.releases().list_releases(call.request(request)).await?.into_inner();
    let urls = call.links_of(path.repository()).await?;
    let releases = response.releases.into_iter().map(|release| Release::new(release, &urls));
    let releases = releases.collect::<Result<Vec<_>, _>>()?;
    Ok(json::page_of_texts(releases, query.headers(page, response.total_count, &call.links)))
}

async fn get(MaybeAuthenticated(call): MaybeAuthenticated, path: RepoPath, params: Params) -> ApiResult {
    find(&call, &path, By::ReleaseId(params.id("id"))).await
}

async fn get_latest(MaybeAuthenticated(call): MaybeAuthenticated, path: RepoPath) -> ApiResult {
    find(&call, &path, By::IsLatest(true)).await
}

async fn get_by_tag(MaybeAuthenticated(call): MaybeAuthenticated, path: RepoPath) -> ApiResult {
    // What is no UTF-8 becomes U+FFFD, which leaves the decision to repo-svc: it finds no such tag.
    let tag = String::from_utf8_lossy(path.rest.strip_prefix(b"tags/").unwrap_or_default()).into_owned();
    find(&call, &path, By::TagName(tag)).await
}

async fn find(call: &ApiCall, path: &RepoPath, by: By) -> ApiResult {
    let request = GetReleaseRequest { repository: Some(path.repository()), by: Some(by) };
    let response = call.clients.releases().get_release(call.request(request)).await?.into_inner();
    let urls = call.links_of(path.repository()).await?;
    Ok(json::ok(Release::new(require(response.release, "release")?, &urls)?))
}

async fn create(Authenticated(call): Authenticated, path: RepoPath, body: JsonBody) -> ApiResult {
    let (repository, decoded, _permit) =
        call.decode_repository_text(&path, operation::CREATE_RELEASE, body, MAX_TEXT_BODY_BYTES, decode_new).await?;
    let (repository, urls) = call.id_and_links_of(repository).await?;
    let request = call.request(CreateReleaseRequest { repository: Some(repository), ..decoded });
    let request = with_timeout(request, LONG_CALL_DEADLINE);
    let response = call.clients.releases().create_release(request).await?.into_inner();
    Ok(json::created(Release::new(require(response.release, "release")?, &urls)?))
}

fn decode_new(fields: &mut FieldReader) -> CreateReleaseRequest {
    let (tag_name, body) = (fields.required_non_empty("tag_name"), fields.text_or_empty("body"));
    CreateReleaseRequest {
        repository: None,
        tag_name,
        target: fields.text_or_empty("target_commitish"),
        title: fields.text_or_empty("name"),
        body: limit_text(fields, "body", body),
        is_draft: fields.flag("draft"),
        is_prerelease: fields.flag("prerelease"),
    }
}

async fn update(Authenticated(call): Authenticated, path: RepoPath, params: Params, body: JsonBody) -> ApiResult {
    let decode = |fields: &mut FieldReader| decode_change(fields, params.id("id"));
    let (repository, decoded, _permit) =
        call.decode_repository_text(&path, operation::UPDATE_RELEASE, body, MAX_TEXT_BODY_BYTES, decode).await?;
    let (repository, urls) = call.id_and_links_of(repository).await?;
    let request = call.request(UpdateReleaseRequest { repository: Some(repository), ..decoded });
    let request = with_timeout(request, LONG_CALL_DEADLINE);
    let response = call.clients.releases().update_release(request).await?.into_inner();
    Ok(json::ok(Release::new(require(response.release, "release")?, &urls)?))
}

/// Reads the changes of a release. An empty tag or target counts as absent; an empty name or body clears.
fn decode_change(fields: &mut FieldReader, release_id: i64) -> UpdateReleaseRequest {
    let body = fields.optional_text("body");
    UpdateReleaseRequest {
        repository: None,
        release_id,
        tag_name: fields.optional_non_empty("tag_name"),
        target: fields.optional_non_empty("target_commitish"),
        title: fields.optional_text("name"),
        body: body.map(|body| limit_text(fields, "body", body)),
        is_draft: fields.optional_flag("draft"),
        is_prerelease: fields.optional_flag("prerelease"),
    }
}

async fn remove(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult {
    let request = DeleteReleaseRequest { repository: Some(path.repository()), release_id: params.id("id") };
    call.clients.releases().delete_release(call.request(request)).await?;
    Ok(json::no_content())
}
