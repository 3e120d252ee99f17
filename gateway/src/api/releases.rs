//! Releases of a repository. Drafts do not exist for callers without write permission.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ferrite_proto::repo::get_release_request::By;
use ferrite_proto::repo::{
    CreateReleaseRequest, DeleteReleaseRequest, GetReleaseRequest, ListReleasesRequest, UpdateReleaseRequest,
};

use super::access::PermissionCheck;
use super::operation;
use super::state::ApiState;
use super::tracker::{decode_text_body, limit_text};
use crate::auth::{Authenticated, MaybeAuthenticated, RequestContext, with_timeout};
use crate::dto::{Release, require};
use crate::http::body::JsonBody;
use crate::http::error::ApiError;
use crate::http::fields::FieldReader;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::{Params, RepoPath};
use crate::http::query::Query;
use crate::http::routes::routes;
use crate::upstream::clients::LONG_CALL_DEADLINE;

routes! { ApiState:
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

async fn list(
    State(api): State<ApiState>,
    MaybeAuthenticated(context): MaybeAuthenticated,
    path: RepoPath,
    query: Query,
) -> Result<Response, ApiError> {
    let page = query.page(PageLimits::WHOLE_LIST);
    let request = ListReleasesRequest { repository: Some(path.repository()), page: page.number, page_size: page.size };
    let answer = api.clients.releases().list_releases(context.request(request)).await?.into_inner();
    let urls = api.links_of(&context, &path).await?;
    let releases = answer.releases.into_iter().map(|release| Release::new(release, &urls));
    let releases = releases.collect::<Result<Vec<_>, _>>()?;
    Ok(json::page_of_texts(releases, query.headers(page, answer.total_count, &api.links)))
}

async fn get(
    State(api): State<ApiState>,
    MaybeAuthenticated(context): MaybeAuthenticated,
    path: RepoPath,
    params: Params,
) -> Result<Response, ApiError> {
    find(&api, &context, &path, By::ReleaseId(params.id("id"))).await
}

async fn get_latest(
    State(api): State<ApiState>,
    MaybeAuthenticated(context): MaybeAuthenticated,
    path: RepoPath,
) -> Result<Response, ApiError> {
    find(&api, &context, &path, By::IsLatest(true)).await
}

async fn get_by_tag(
    State(api): State<ApiState>,
    MaybeAuthenticated(context): MaybeAuthenticated,
    path: RepoPath,
) -> Result<Response, ApiError> {
    // What is no UTF-8 becomes U+FFFD, which leaves the decision to repo-svc: it finds no such tag.
    let tag = String::from_utf8_lossy(path.rest.strip_prefix(b"tags/").unwrap_or_default()).into_owned();
    find(&api, &context, &path, By::TagName(tag)).await
}

async fn find(api: &ApiState, context: &RequestContext, path: &RepoPath, by: By) -> Result<Response, ApiError> {
    let request = GetReleaseRequest { repository: Some(path.repository()), by: Some(by) };
    let answer = api.clients.releases().get_release(context.request(request)).await?.into_inner();
    let urls = api.links_of(context, path).await?;
    Ok(json::ok(Release::new(require(answer.release, "release")?, &urls)?))
}

async fn create(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let decoded = decode_text_body(body, &api.body_limits, |fields| decode_new(fields, &path)).await;
    let (request, _permit) = match decoded {
        Ok(decoded) => decoded,
        Err(error) => {
            let check = PermissionCheck::of(operation::CREATE_RELEASE).on_repository(path.repository());
            return Err(api.prefer_permission_error(&context, check, error).await);
        }
    };
    let request = with_timeout(context.request(request), LONG_CALL_DEADLINE);
    let answer = api.clients.releases().create_release(request).await?.into_inner();
    let urls = api.links_of(&context, &path).await?;
    Ok(json::created(Release::new(require(answer.release, "release")?, &urls)?))
}

fn decode_new(fields: &mut FieldReader, path: &RepoPath) -> CreateReleaseRequest {
    let (tag_name, body) = (fields.required_non_empty("tag_name"), fields.text_or_empty("body"));
    CreateReleaseRequest {
        repository: Some(path.repository()),
        tag_name,
        target: fields.text_or_empty("target_commitish"),
        title: fields.text_or_empty("name"),
        body: limit_text(fields, "body", body),
        is_draft: fields.flag("draft"),
        is_prerelease: fields.flag("prerelease"),
    }
}

async fn update(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    params: Params,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let id = params.id("id");
    let decoded = decode_text_body(body, &api.body_limits, |fields| decode_change(fields, &path, id)).await;
    let (request, _permit) = match decoded {
        Ok(decoded) => decoded,
        Err(error) => {
            let check = PermissionCheck::of(operation::UPDATE_RELEASE).on_repository(path.repository());
            return Err(api.prefer_permission_error(&context, check, error).await);
        }
    };
    let request = with_timeout(context.request(request), LONG_CALL_DEADLINE);
    let answer = api.clients.releases().update_release(request).await?.into_inner();
    let urls = api.links_of(&context, &path).await?;
    Ok(json::ok(Release::new(require(answer.release, "release")?, &urls)?))
}

/// Reads the changes of a release. An empty tag or target counts as absent; an empty name or body clears.
fn decode_change(fields: &mut FieldReader, path: &RepoPath, release_id: i64) -> UpdateReleaseRequest {
    let body = fields.optional_text("body");
    UpdateReleaseRequest {
        repository: Some(path.repository()),
        release_id,
        tag_name: fields.optional_non_empty("tag_name"),
        target: fields.optional_non_empty("target_commitish"),
        title: fields.optional_text("name"),
        body: body.map(|body| limit_text(fields, "body", body)),
        is_draft: fields.optional_flag("draft"),
        is_prerelease: fields.optional_flag("prerelease"),
    }
}

async fn remove(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    params: Params,
) -> Result<Response, ApiError> {
    let request = DeleteReleaseRequest { repository: Some(path.repository()), release_id: params.id("id") };
    api.clients.releases().delete_release(context.request(request)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
