//! Milestones of a repository.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ferrite_proto::issue::{
    CreateMilestoneRequest, DeleteMilestoneRequest, GetMilestoneRequest, IssueState, ListMilestonesRequest,
    UpdateMilestoneRequest,
};
use ferrite_proto::operation;

use super::state::ApiState;
use super::tracker::{list_error, listed_state, new_state};
use crate::auth::Authenticated;
use crate::dto::{Milestone, require};
use crate::http::body::JsonBody;
use crate::http::body_limits::MAX_JSON_BYTES;
use crate::http::error::ApiError;
use crate::http::fields::{FieldReader, MUST_BE_RFC_3339, parse_time};
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::{Params, RepoPath};
use crate::http::query::Query;
use crate::http::routes::routes;

routes! { ApiState:
    "/api/v1/repos/{owner}/{repo}/milestones" =>
        get list as operation::LIST_MILESTONES,
        post create as operation::CREATE_MILESTONE;
    "/api/v1/repos/{owner}/{repo}/milestones/{id}" =>
        get get as operation::GET_MILESTONE,
        patch update as operation::UPDATE_MILESTONE,
        delete remove as operation::DELETE_MILESTONE;
}

async fn list(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    query: Query,
) -> Result<Response, ApiError> {
    let access = api.access(&context, &path, operation::LIST_MILESTONES).await?;
    let page = query.page(PageLimits::WHOLE_LIST);
    let request = ListMilestonesRequest {
        repository_id: access.id,
        state: listed_state(&query, IssueState::Unspecified).into(),
        page: page.number,
        page_size: page.size,
    };
    let request = context.request_with_grant(&access.grant, request);
    let answer = api.clients.milestones().list_milestones(request).await.map_err(list_error)?.into_inner();
    let milestones = answer.milestones.into_iter().map(Milestone::new).collect::<Result<Vec<_>, _>>()?;
    Ok(json::page_of_texts(milestones, query.headers(page, answer.total_count, &api.links)))
}

async fn get(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    params: Params,
) -> Result<Response, ApiError> {
    let access = api.access(&context, &path, operation::GET_MILESTONE).await?;
    let request = GetMilestoneRequest { repository_id: access.id, milestone_id: params.id("id") };
    let request = context.request_with_grant(&access.grant, request);
    let answer = api.clients.milestones().get_milestone(request).await?.into_inner();
    Ok(json::ok(Milestone::new(require(answer.milestone, "milestone")?)?))
}

async fn create(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let access = api.access(&context, &path, operation::CREATE_MILESTONE).await?;
    let mut fields = body.fields(&api.body_limits, MAX_JSON_BYTES).await?;
    let request = CreateMilestoneRequest {
        repository_id: access.id,
        title: fields.required_non_empty("title"),
        description: fields.text_or_empty("description"),
        due_time: fields.optional_time("due_on"),
    };
    let _permit = fields.finish()?;
    let request = context.request_with_grant(&access.grant, request);
    let answer = api.clients.milestones().create_milestone(request).await?.into_inner();
    Ok(json::created(Milestone::new(require(answer.milestone, "milestone")?)?))
}

async fn update(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    params: Params,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let access = api.access(&context, &path, operation::UPDATE_MILESTONE).await?;
    let mut fields = body.fields(&api.body_limits, MAX_JSON_BYTES).await?;
    let request = decode(&mut fields, access.id, params.id("id"));
    let _permit = fields.finish()?;
    let request = context.request_with_grant(&access.grant, request);
    let answer = api.clients.milestones().update_milestone(request).await?.into_inner();
    Ok(json::ok(Milestone::new(require(answer.milestone, "milestone")?)?))
}

/// Reads the changes of a milestone. An empty title or state counts as absent; an empty description or date clears.
fn decode(fields: &mut FieldReader, repository_id: i64, milestone_id: i64) -> UpdateMilestoneRequest {
    let due_on = fields.optional_text("due_on");
    let clear_due_time = due_on.as_ref().is_some_and(String::is_empty);
    let due_time = due_on.filter(|text| !text.is_empty()).and_then(|text| {
        let time = parse_time(&text);
        if time.is_none() {
            fields.add_error("due_on", "invalid", MUST_BE_RFC_3339);
        }
        time
    });
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

async fn remove(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    params: Params,
) -> Result<Response, ApiError> {
    let access = api.access(&context, &path, operation::DELETE_MILESTONE).await?;
    let request = DeleteMilestoneRequest { repository_id: access.id, milestone_id: params.id("id") };
    api.clients.milestones().delete_milestone(context.request_with_grant(&access.grant, request)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
