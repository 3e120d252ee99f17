use ferrite_api_types::Milestone;
use ferrite_api_types::convert::require;
use ferrite_proto::issue::{
    self, CreateMilestoneRequest, DeleteMilestoneRequest, GetMilestoneRequest, IssueState, ListMilestonesRequest,
    UpdateMilestoneRequest,
};
use ferrite_proto::operation;

use super::{ListedState, NewState, list_error};
use crate::api::call::{Authenticated, MaybeAuthenticated, operations};
use crate::http::error::ApiResult;
use crate::http::filters::{QueryOf, filters};
use crate::http::page::WholeList;
use crate::http::path::{Params, RepoPath};
use crate::http::request::{Clearable, NonEmpty, Optional, OrDefault, RequestBody, Required, Text, Time, Word, fields};
use crate::http::response::{Created, Json, NoContent, TextList};

operations! {
    "/api/v1/repos/{owner}/{repo}/milestones" =>
        get list as operation::LIST_MILESTONES,
        post create as operation::CREATE_MILESTONE;
    "/api/v1/repos/{owner}/{repo}/milestones/{id}" =>
        get get as operation::GET_MILESTONE,
        patch update as operation::UPDATE_MILESTONE,
        delete remove as operation::DELETE_MILESTONE;
}

filters! {
    /// Filters of milestones.
    struct MilestoneFilters {
        /// The state of the milestones: `open`, `closed` or `all` (the default).
        state: Word<ListedState> = "open",
    }
}

fields! {
    /// A new milestone.
    struct NewMilestone {
        title: Required<Text<50>> = "1.0",
        description: OrDefault<Text<65536>> = "The first release.",
        /// The due date; absent or empty for none.
        due_on: NonEmpty<Time> = "2026-03-01T00:00:00Z",
    }
}

fields! {
    /// Changes of a milestone. Absent fields stay unchanged.
    struct ChangedMilestone {
        /// The due date. An empty text removes it; null changes nothing.
        due_on: Clearable<Time> = "2026-04-01T00:00:00Z",
        /// The title, with the rules for a new milestone. An empty one changes nothing.
        title: NonEmpty<Text<50>> = "1.1",
        /// The description, with the rules for a new milestone. An empty one removes it.
        description: Optional<Text<65536>> = "The second release.",
        /// The new state. An empty text changes nothing.
        state: NonEmpty<Word<NewState>> = "closed",
    }
}

/// Returns the id in a path, and the title that counts if no milestone has the id.
fn named(params: &Params) -> (i64, String) {
    (params.id("id"), params.name("id"))
}

fn milestone(milestone: Option<issue::Milestone>) -> ApiResult<Milestone> {
    Ok(Milestone::new(require(milestone, "milestone")?)?)
}

async fn list(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    query: WholeList,
    filters: QueryOf<MilestoneFilters>,
) -> ApiResult<TextList<Milestone>> {
    let access = call.access(&path, operation::LIST_MILESTONES).await?;
    let MilestoneFilters { state } = filters.read()?;
    let request = ListMilestonesRequest {
        repository_id: access.id,
        state: state.unwrap_or(IssueState::Unspecified).into(),
        page: query.page.number,
        page_size: query.page.size,
    };
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.milestones().list_milestones(request).await.map_err(list_error)?.into_inner();
    let milestones = response.milestones.into_iter().map(Milestone::new).collect::<Result<Vec<_>, _>>()?;
    Ok(query.text_list(milestones, response.total_count, &call.links))
}

async fn get(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    params: Params,
) -> ApiResult<Json<Milestone>> {
    let access = call.access(&path, operation::GET_MILESTONE).await?;
    let (milestone_id, or_title) = named(&params);
    let request = GetMilestoneRequest { repository_id: access.id, milestone_id, or_title };
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.milestones().get_milestone(request).await?.into_inner();
    Ok(Json(milestone(response.milestone)?))
}

async fn create(
    Authenticated(call): Authenticated,
    path: RepoPath,
    body: RequestBody<NewMilestone>,
) -> ApiResult<Created<Milestone>> {
    let (access, NewMilestone { title, description, due_on }, _permit) =
        call.access_and_body(&path, operation::CREATE_MILESTONE, body).await?;
    let request = CreateMilestoneRequest { repository_id: access.id, title, description, due_time: due_on };
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.milestones().create_milestone(request).await?.into_inner();
    let made = require(response.milestone, "milestone")?;
    let location = format!("{}/milestones/{}", access.urls.api(), made.id);
    Ok(Created::at(location, Milestone::new(made)?))
}

async fn update(
    Authenticated(call): Authenticated,
    path: RepoPath,
    params: Params,
    body: RequestBody<ChangedMilestone>,
) -> ApiResult<Json<Milestone>> {
    let (access, ChangedMilestone { due_on, title, description, state }, _permit) =
        call.access_and_body(&path, operation::UPDATE_MILESTONE, body).await?;
    let (milestone_id, or_title) = named(&params);
    let request = UpdateMilestoneRequest {
        repository_id: access.id,
        milestone_id,
        or_title,
        title,
        description,
        state: state.unwrap_or_default().into(),
        clear_due_time: due_on == Some(None),
        due_time: due_on.flatten(),
    };
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.milestones().update_milestone(request).await?.into_inner();
    Ok(Json(milestone(response.milestone)?))
}

async fn remove(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult<NoContent> {
    let access = call.access(&path, operation::DELETE_MILESTONE).await?;
    let (milestone_id, or_title) = named(&params);
    let request = DeleteMilestoneRequest { repository_id: access.id, milestone_id, or_title };
    call.clients.milestones().delete_milestone(call.request_with_grant(&access.grant, request)).await?;
    Ok(NoContent)
}
