//! PermitMerge, and GetMergeReviews for those who only want to know.

use std::time::Duration;

use ferrite_proto::git::MergeReviews;
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::{GetMergeReviewsRequest, GetMergeReviewsResponse, PermitMergeRequest, PermitMergeResponse};
use ferrite_rpc::service_key::ReviewFacts;
use tonic::Request;

use crate::encode;
use crate::error::IssueError;
use crate::model::{allows_style, check_commit_id, merge_style};
use crate::pulls::MergeOrder;
use crate::rpc::user;
use crate::state::AppState;
use crate::writer::MergeRules;

/// Longest wait for a push to the head that is being taken over.
const MAX_HEAD_CHECKS: u32 = 20;
const HEAD_CHECK_INTERVAL: Duration = Duration::from_millis(100);

pub(in crate::rpc) async fn get_merge_reviews(
    state: &AppState,
    request: Request<GetMergeReviewsRequest>,
) -> Result<GetMergeReviewsResponse, IssueError> {
    state.authorize_pulls(&request, request.get_ref().repository_id).await?;
    let GetMergeReviewsRequest { repository_id, number } = request.into_inner();
    let full = state.full_pull(RepositoryId(repository_id), number).await?;
    let reviews = match &full.pull_request {
        Some(pull) if !full.issue.class.is_closed => Some(state.pulls.merge_reviews(&full, &pull.head_id).await?),
        _ => None,
    };
    let is_head_shared = state.store.is_head_shared(state.store.reader(), full.issue.id).await?;
    let (reviews, pull) = (reviews.map(encode_reviews), Some(encode::issue(full)));
    Ok(GetMergeReviewsResponse { reviews, pull, is_head_shared })
}

fn encode_reviews(facts: ReviewFacts) -> MergeReviews {
    let ReviewFacts { approvals, stale_approvals, rejections, has_requests } = facts;
    MergeReviews {
        approver_ids: approvals,
        stale_approver_ids: stale_approvals,
        rejecter_ids: rejections,
        has_requests,
    }
}

pub(in crate::rpc) async fn permit_merge(
    state: &AppState,
    request: Request<PermitMergeRequest>,
) -> Result<PermitMergeResponse, IssueError> {
    let grant = state.authorize_pulls(&request, request.get_ref().repository_id).await?;
    let user = user(&grant)?;
    let request = request.into_inner();
    let head_id = match request.head_id.as_str() {
        "" => Ok(()),
        id => check_commit_id("head_commit_id", id),
    };
    let style = match (merge_style(request.style), head_id) {
        (Ok(style), Ok(())) => style,
        (style, head_id) => return Err(IssueError::invalid([style.err(), head_id.err()])),
    };
    let repository = RepositoryId(request.repository_id);
    wait_for_head(state, repository, request.number).await?;
    let described = state.pulls.describe(repository).await?;
    let is_style_allowed = allows_style(described.pulls.as_ref(), style.into());
    let order = MergeOrder {
        number: request.number,
        style: style.into(),
        user,
        rules: MergeRules { is_style_allowed, head_id: &request.head_id },
        is_scheduled: false,
    };
    let permitted = state.pulls.permit(repository, order).await?;
    Ok(PermitMergeResponse {
        permit: permitted.permit,
        pull: Some(encode::issue(permitted.pull)),
        is_head_shared: permitted.is_head_shared,
    })
}

/// Waits until known pushes to the head are taken over, so that no older head is merged.
pub(super) async fn wait_for_head(state: &AppState, repository: RepositoryId, number: i64) -> Result<(), IssueError> {
    for _ in 0..MAX_HEAD_CHECKS {
        if !state.pulls.queue.is_head_waiting(repository, number).await? {
            return Ok(());
        }
        state.pulls.queue.wake();
        tokio::time::sleep(HEAD_CHECK_INTERVAL).await;
    }
    Err(IssueError::HeadMoved)
}
