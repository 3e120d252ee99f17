//! Milestones of a repository.

use ferrite_proto::issue::{
    CreateMilestoneRequest, DeleteMilestoneRequest, GetMilestoneRequest, IssueState, ListMilestonesRequest,
    UpdateMilestoneRequest,
};
use ferrite_proto::operation;

use super::{list_error, listed_state, new_state};
use crate::api::call::{Authenticated, routes};
use crate::dto::{Milestone, require};
use crate::http::body::JsonBody;
use crate::http::body_limits::MAX_JSON_BYTES;
use crate::http::error::{ApiError, ApiResult};
use crate::http::fields::FieldReader;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::{Params, RepoPath};
use crate::http::query::Query;

routes! {
    "/api/v1/repos/{owner}/{repo}/milestones" =>
        get list as operation::LIST_MILESTONES,
        post create as operation::CREATE_MILESTONE;
    "/api/v1/repos/{owner}/{repo}/milestones/{id}" =>
        get get as operation::GET_MILESTONE,
        patch update as operation::UPDATE_MILESTONE,
        delete remove as operation::DELETE_MILESTONE;
}

async fn list(Authenticated(call): Authenticated, path: RepoPath, query: Query) -> ApiResult {
    let access = call.access(&path, operation::LIST_MILESTONES).await?;
    let page = query.page(PageLimits::WHOLE_LIST);
    let state = listed_state(&query, IssueState::Unspecified).map_err(|error| ApiError::invalid(vec![error]))?;
    let request = ListMilestonesRequest {
        repository_id: access.id,
        state: state.into(),
        page: page.number,
        page_size: page.size,
    };
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.milestones().list_milestones(request).await.map_err(list_error)?.into_inner();
    let milestones = response.milestones.into_iter().map(Milestone::new).collect::<Result<Vec<_>, _>>()?;
    Ok(json::page_of_texts(milestones, query.headers(page, response.total_count, &call.links)))
}

async fn get(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult {
    let access = call.access(&path, operation::GET_MILESTONE).await?;
    let request = GetMilestoneRequest { repository_id: access.id, milestone_id: params.id("id") };
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.milestones().get_milestone(request).await?.into_inner();
    Ok(json::ok(Milestone::new(require(response.milestone, "milestone")?)?))
}

async fn create(Authenticated(call): Authenticated, path: RepoPath, body: JsonBody) -> ApiResult {
    let access = call.access(&path, operation::CREATE_MILESTONE).await?;
    let decode = body.decode(&call.body_limits, MAX_JSON_BYTES, |fields| CreateMilestoneRequest {
        repository_id: access.id,
        title: fields.required_non_empty("title"),
        description: fields.text_or_empty("description"),
        due_time: fields.optional_time("due_on"),
    });
    let (request, _permit) = decode.await?;
    let access = call.confirm(access, operation::CREATE_MILESTONE).await?;
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.milestones().create_milestone(request).await?.into_inner();
    Ok(json::created(Milestone::new(require(response.milestone, "milestone")?)?))
}

async fn update(Authenticated(call): Authenticated, path: RepoPath, params: Params, body: JsonBody) -> ApiResult {
    let access = call.access(&path, operation::UPDATE_MILESTONE).await?;
    let decode = |fields: &mut FieldReader| decode(fields, access.id, params.id("id"));
    let (request, _permit) = body.decode(&call.body_limits, MAX_JSON_BYTES, decode).await?;
    let access = call.confirm(access, operation::UPDATE_MILESTONE).await?;
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.milestones().update_milestone(request).await?.into_inner();
    Ok(json::ok(Milestone::new(require(response.milestone, "milestone")?)?))
}

/// Reads the changes of a milestone. An empty title or state counts as absent; an empty description or date clears.
fn decode(fields: &mut FieldReader, repository_id: i64, milestone_id: i64) -> UpdateMilestoneRequest {
    let (clear_due_time, due_time) = (fields.is_empty_text("due_on"), fields.optional_time("due_on"));
    UpdateMilestoneRequest {
        repository_id,
        milestone_id,
        title: fields.optional_non_empty("title"),
        description: fields.optional_text("description"),
        state: new_state(fields).into(),
        due_time,
        clear_due_time,
    }
}

async fn remove(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult {
    let access = call.access(&path, operation::DELETE_MILESTONE).await?;
    let request = DeleteMilestoneRequest { repository_id: access.id, milestone_id: params.id("id") };
    call.clients.milestones().delete_milestone(call.request_with_grant(&access.grant, request)).await?;
    Ok(json::no_content())
}
