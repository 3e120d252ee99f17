use ferrite_core::page::Page;
use ferrite_db::idempotency::{IdempotencyKey, once, once_or_rebuild};
use ferrite_listener::service;
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::milestone_service_server::MilestoneService;
use ferrite_proto::issue::*;
use ferrite_rpc::version;
use tonic::Request;

use super::user;
use crate::encode;
use crate::error::IssueError;
use crate::model::{Description, MilestoneTitle};
use crate::state::AppState;
use crate::store::CounterChange;
use crate::writer::MilestoneChange;

const MAX_PAGE_SIZE: i32 = 1000;

service!(MilestoneService for AppState {
    list_milestones(ListMilestonesRequest) -> ListMilestonesResponse;
    get_milestone(GetMilestoneRequest) -> GetMilestoneResponse;
    create_milestone(CreateMilestoneRequest) -> CreateMilestoneResponse;
    update_milestone(UpdateMilestoneRequest) -> UpdateMilestoneResponse;
    delete_milestone(DeleteMilestoneRequest) -> DeleteMilestoneResponse;
});

async fn list_milestones(
    state: &AppState,
    request: Request<ListMilestonesRequest>,
) -> Result<ListMilestonesResponse, IssueError> {
    state.authorize_settings(&request, request.get_ref().repository_id).await?;
    let request = request.into_inner();
    let is_closed = encode::is_closed(request.state)?;
    let page = Page::parse(request.page, request.page_size, MAX_PAGE_SIZE).map_err(IssueError::Invalid)?;
    let repository = RepositoryId(request.repository_id);
    let (milestones, total_count) = state.store.list_milestones(repository, is_closed, page).await?;
    let milestones = milestones.into_iter().map(encode::milestone).collect();
    Ok(ListMilestonesResponse { milestones, total_count })
}

async fn get_milestone(
    state: &AppState,
    request: Request<GetMilestoneRequest>,
) -> Result<GetMilestoneResponse, IssueError> {
    state.authorize_settings(&request, request.get_ref().repository_id).await?;
    let GetMilestoneRequest { repository_id, milestone_id, or_title } = request.into_inner();
    let found = state.milestone_or(RepositoryId(repository_id), milestone_id, &or_title).await?;
    let milestone = encode::milestone(found);
    version::tell(&milestone);
    Ok(GetMilestoneResponse { milestone: Some(milestone) })
}

async fn create_milestone(
    state: &AppState,
    request: Request<CreateMilestoneRequest>,
) -> Result<CreateMilestoneResponse, IssueError> {
    let grant = state.authorize_settings(&request, request.get_ref().repository_id).await?;
    let key = IdempotencyKey::of(&request, user(&grant)?.0, "CreateMilestone")?;
    let request = request.into_inner();
    let repository = RepositoryId(request.repository_id);
    let create = async {
        let (title, text) = match (MilestoneTitle::parse(&request.title), Description::parse(request.description)) {
            (Ok(title), Ok(text)) => (title, text),
            (title, text) => return Err(IssueError::invalid([title.err(), text.err()])),
        };
        let change = CounterChange { milestones: 1, ..CounterChange::default() };
        let mut write = state.writer.begin(repository, change).await?;
        let milestone = write.add_milestone(&title, &text, request.due_time.map(encode::micros)).await?;
        let (id, response) = (milestone.id, CreateMilestoneResponse { milestone: Some(encode::milestone(milestone)) });
        write.commit_with_subject(key.as_ref(), response, id).await
    };
    let rebuild = |id: i64| async move {
        Ok(CreateMilestoneResponse { milestone: Some(encode::milestone(state.milestone(repository, id).await?)) })
    };
    once_or_rebuild(state.store.db(), key.as_ref(), rebuild, create).await
}

async fn update_milestone(
    state: &AppState,
    request: Request<UpdateMilestoneRequest>,
) -> Result<UpdateMilestoneResponse, IssueError> {
    let grant = state.authorize_settings(&request, request.get_ref().repository_id).await?;
    let key = IdempotencyKey::of(&request, user(&grant)?.0, "UpdateMilestone")?;
    let mut request = request.into_inner();
    let (repository, id) = (RepositoryId(request.repository_id), request.milestone_id);
    let or_title = std::mem::take(&mut request.or_title);
    let update = async {
        let change = decode_change(request)?;
        let mut write = state.writer.begin(repository, CounterChange::default()).await?;
        let milestone = write.change_milestone(id, &or_title, change).await?;
        let (id, response) = (milestone.id, UpdateMilestoneResponse { milestone: Some(encode::milestone(milestone)) });
        write.commit_with_subject(key.as_ref(), response, id).await
    };
    let rebuild = |id: i64| async move {
        Ok(UpdateMilestoneResponse { milestone: Some(encode::milestone(state.milestone(repository, id).await?)) })
    };
    once_or_rebuild(state.store.db(), key.as_ref(), rebuild, update).await
}

fn decode_change(request: UpdateMilestoneRequest) -> Result<MilestoneChange, IssueError> {
    let title = request.title.as_deref().map(MilestoneTitle::parse).transpose();
    let description = request.description.map(Description::parse).transpose();
    let is_closed = encode::is_closed(request.state);
    let due_us = encode::due_change("due_on", request.due_time, request.clear_due_time)
        .map(|change| change.map(|due_time| due_time.map(encode::micros)));
    match (title, description, is_closed, due_us) {
        (Ok(title), Ok(description), Ok(is_closed), Ok(due_us)) => {
            Ok(MilestoneChange { title, description, is_closed, due_us })
        }
        (title, description, is_closed, due_us) => {
            Err(IssueError::invalid([title.err(), description.err(), is_closed.err(), due_us.err()]))
        }
    }
}

async fn delete_milestone(
    state: &AppState,
    request: Request<DeleteMilestoneRequest>,
) -> Result<DeleteMilestoneResponse, IssueError> {
    let grant = state.authorize_settings(&request, request.get_ref().repository_id).await?;
    let key = IdempotencyKey::of(&request, user(&grant)?.0, "DeleteMilestone")?;
    let request = request.into_inner();
    let delete = async {
        let mut write = state.writer.begin(RepositoryId(request.repository_id), CounterChange::default()).await?;
        write.delete_milestone(request.milestone_id, &request.or_title).await?;
        write.commit(key.as_ref(), DeleteMilestoneResponse {}).await
    };
    once(state.store.db(), key.as_ref(), delete).await
}
