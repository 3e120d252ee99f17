//! The RPCs of pull requests.

mod create;
mod update;

use ferrite_core::page::Page;
use ferrite_listener::service;
use ferrite_proto::error::FieldViolation;
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::issue::pull_service_server::PullService;
use ferrite_proto::issue::*;
use ferrite_rpc::version;
use tonic::Request;

use self::create::create_pull;
use self::update::update_pull;
use super::issues::MAX_PAGE_SIZE;
use super::merges::{cancel_merge, get_merge_reviews, mark_merged, permit_merge, schedule_merge};
use crate::encode;
use crate::error::IssueError;
use crate::model::{Class, Label, PullEnds, check_commit_id};
use crate::state::AppState;
use crate::store::{Condition, IssueFilter, Order, Sort};
use crate::writer::MAX_ISSUE_LABELS;

service!(PullService for AppState {
    create_pull(CreatePullRequest) -> CreatePullResponse;
    list_pulls(ListPullsRequest) -> ListPullsResponse;
    get_pull(GetPullRequest) -> GetPullResponse;
    get_pull_by_branches(GetPullByBranchesRequest) -> GetPullByBranchesResponse;
    get_pull_by_commit(GetPullByCommitRequest) -> GetPullByCommitResponse;
    update_pull(UpdatePullRequest) -> UpdatePullResponse;
    get_merge_reviews(GetMergeReviewsRequest) -> GetMergeReviewsResponse;
    permit_merge(PermitMergeRequest) -> PermitMergeResponse;
    schedule_merge(ScheduleMergeRequest) -> ScheduleMergeResponse;
    cancel_merge(CancelMergeRequest) -> CancelMergeResponse;
    mark_merged(MarkMergedRequest) -> MarkMergedResponse;
});

async fn get_pull(state: &AppState, request: Request<GetPullRequest>) -> Result<GetPullResponse, IssueError> {
    state.authorize_pulls(&request, request.get_ref().repository_id).await?;
    let GetPullRequest { repository_id, number } = request.into_inner();
    let pull = encode::issue(state.full_pull(RepositoryId(repository_id), number).await?);
    version::tell(&pull);
    Ok(GetPullResponse { pull: Some(pull) })
}

async fn get_pull_by_branches(
    state: &AppState,
    request: Request<GetPullByBranchesRequest>,
) -> Result<GetPullByBranchesResponse, IssueError> {
    state.authorize_pulls(&request, request.get_ref().repository_id).await?;
    let request = request.into_inner();
    let ends = PullEnds {
        repository: RepositoryId(request.repository_id),
        base_branch: request.base_branch,
        head_repository: RepositoryId(request.head_repository_id),
        head_branch: request.head_branch,
    };
    let is_text = !ends.base_branch.contains('\0') && !ends.head_branch.contains('\0');
    let number = match is_text {
        true => state.store.open_between(state.store.reader(), &ends).await?,
        false => None,
    };
    let pull = state.full_pull(ends.repository, number.ok_or(IssueError::PullNotFound)?).await?;
    Ok(GetPullByBranchesResponse { pull: Some(encode::issue(pull)) })
}

async fn get_pull_by_commit(
    state: &AppState,
    request: Request<GetPullByCommitRequest>,
) -> Result<GetPullByCommitResponse, IssueError> {
    state.authorize_pulls(&request, request.get_ref().repository_id).await?;
    let GetPullByCommitRequest { repository_id, commit_id } = request.into_inner();
    check_commit_id("sha", &commit_id)?;
    let repository = RepositoryId(repository_id);
    let number = state.store.pull_with_commit(repository, &commit_id.to_ascii_lowercase()).await?;
    let pull = state.full_pull(repository, number.ok_or(IssueError::PullNotFound)?).await?;
    Ok(GetPullByCommitResponse { pull: Some(encode::issue(pull)) })
}

async fn list_pulls(state: &AppState, request: Request<ListPullsRequest>) -> Result<ListPullsResponse, IssueError> {
    let grant = state.authorize_pulls(&request, request.get_ref().repository_id).await?;
    let request = request.into_inner();
    let repository = RepositoryId(request.repository_id);
    let (classes, order, page) = decode_list(&request)?;
    let (label_ids, shared_label_ids) = match request.label_ids.as_slice() {
        [] => (Vec::new(), Vec::new()),
        ids => {
            let mut ids = ids.to_vec();
            ids.sort_unstable();
            ids.dedup();
            let owners = super::issues::owners_of_labels(&grant);
            let found = state.store.labels_matching(state.store.reader(), &owners, &ids, &[]).await?;
            if found.len() < ids.len() {
                return Ok(ListPullsResponse::default());
            }
            let (shared, own): (Vec<_>, Vec<_>) = found.into_iter().partition(Label::is_shared);
            let ids = |labels: Vec<Label>| labels.into_iter().map(|label| label.id).collect();
            (ids(own), ids(shared))
        }
    };
    if request.base_branch.contains('\0') {
        return Ok(ListPullsResponse::default());
    }
    let filter = IssueFilter {
        classes,
        label_ids,
        shared_label_ids,
        creator: (request.creator_id != 0).then_some(UserId(request.creator_id)),
        milestone: (request.milestone_id != 0).then_some(Condition::Is(request.milestone_id)),
        base_branch: Some(request.base_branch).filter(|branch| !branch.is_empty()),
        ..IssueFilter::default()
    };
    let found = state.store.list(repository, &filter, order, page).await?;
    let pulls = found.issues.into_iter().map(encode::issue).collect();
    Ok(ListPullsResponse { pulls, total_count: found.total, is_partial: found.is_partial })
}

fn decode_list(request: &ListPullsRequest) -> Result<(Vec<Class>, Order, Page), IssueError> {
    let states = encode::is_closed(request.state).map(|state| state.map_or(vec![false, true], |state| vec![state]));
    let order = match PullSort::try_from(request.sort) {
        Ok(PullSort::Unspecified) => Ok((Sort::Number, false)),
        Ok(PullSort::Oldest) => Ok((Sort::Number, true)),
        Ok(PullSort::RecentlyUpdated) => Ok((Sort::Updated, false)),
        Ok(PullSort::LeastUpdated) => Ok((Sort::Updated, true)),
        Ok(PullSort::MostCommented) => Ok((Sort::Comments, false)),
        Ok(PullSort::LeastCommented) => Ok((Sort::Comments, true)),
        Err(_) => Err(FieldViolation::new("sort", "unknown", "must be a known order")),
    };
    let labels = match request.label_ids.len() > MAX_ISSUE_LABELS {
        true => Err(FieldViolation::new("labels", "too_many", "must not list more than 100 labels")),
        false => Ok(()),
    };
    let page = Page::parse(request.page, request.page_size, MAX_PAGE_SIZE);
    match (states, order, labels, page) {
        (Ok(states), Ok((sort, is_ascending)), Ok(()), Ok(page)) => {
            let classes = states.into_iter().map(|is_closed| Class { is_pull_request: true, is_closed }).collect();
            Ok((classes, Order { sort, is_ascending }, page))
        }
        (states, order, labels, page) => {
            let mut violations = page.err().unwrap_or_default();
            violations.extend([states.err(), order.err(), labels.err()].into_iter().flatten());
            Err(IssueError::Invalid(violations))
        }
    }
}
