//! The RPCs of reviews, their comments, and requests for them. Pending reviews are there for their
//! authors alone.

mod changes;
mod comments;
mod create;

use ferrite_core::page::Page;
use ferrite_listener::service;
use ferrite_proto::grant::Grant;
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::issue::review_service_server::ReviewService;
use ferrite_proto::issue::*;
use ferrite_rpc::version;
use tonic::Request;

use self::changes::{delete_review, dismiss_review, undismiss_review};
use self::comments::{
    delete_review_comment, get_review_comment, list_review_comments, resolve_review_comment, unresolve_review_comment,
    update_review_comment,
};
use self::create::{create_review, submit_review};
use super::review_requests::{remove_review_requests, request_reviews};
use crate::encode;
use crate::error::IssueError;
use crate::model;
use crate::state::AppState;

const MAX_PAGE_SIZE: i32 = 1000;

service!(ReviewService for AppState {
    list_reviews(ListReviewsRequest) -> ListReviewsResponse;
    get_review(GetReviewRequest) -> GetReviewResponse;
    create_review(CreateReviewRequest) -> CreateReviewResponse;
    submit_review(SubmitReviewRequest) -> SubmitReviewResponse;
    delete_review(DeleteReviewRequest) -> DeleteReviewResponse;
    dismiss_review(DismissReviewRequest) -> DismissReviewResponse;
    undismiss_review(UndismissReviewRequest) -> UndismissReviewResponse;
    request_reviews(RequestReviewsRequest) -> RequestReviewsResponse;
    remove_review_requests(RemoveReviewRequestsRequest) -> RemoveReviewRequestsResponse;
    list_review_comments(ListReviewCommentsRequest) -> ListReviewCommentsResponse;
    get_review_comment(GetReviewCommentRequest) -> GetReviewCommentResponse;
    update_review_comment(UpdateReviewCommentRequest) -> UpdateReviewCommentResponse;
    delete_review_comment(DeleteReviewCommentRequest) -> DeleteReviewCommentResponse;
    resolve_review_comment(ResolveReviewCommentRequest) -> ResolveReviewCommentResponse;
    unresolve_review_comment(UnresolveReviewCommentRequest) -> UnresolveReviewCommentResponse;
});

/// Returns who asks; zero, who has no pending review, without credentials.
fn viewer(grant: &Grant) -> UserId {
    grant.user_id().unwrap_or(UserId(0))
}

/// Returns a review of a pull request that `viewer` sees.
async fn find(
    state: &AppState,
    (repository, number): (RepositoryId, i64),
    id: i64,
    viewer: UserId,
) -> Result<model::Review, IssueError> {
    let found = state.store.review(state.store.reader(), (repository, number), id, viewer).await?;
    found.ok_or(IssueError::ReviewNotFound)
}

async fn list_reviews(
    state: &AppState,
    request: Request<ListReviewsRequest>,
) -> Result<ListReviewsResponse, IssueError> {
    let grant = state.authorize_pulls(&request, request.get_ref().repository_id).await?;
    let request = request.into_inner();
    let page = Page::parse(request.page, request.page_size, MAX_PAGE_SIZE).map_err(IssueError::Invalid)?;
    let pull = state.full_pull(RepositoryId(request.repository_id), request.number).await?;
    let (reviews, total_count) = state.store.list_reviews(pull.issue.id, viewer(&grant), page).await?;
    Ok(ListReviewsResponse { reviews: reviews.into_iter().map(encode::review).collect(), total_count })
}

async fn get_review(state: &AppState, request: Request<GetReviewRequest>) -> Result<GetReviewResponse, IssueError> {
    let grant = state.authorize_pulls(&request, request.get_ref().repository_id).await?;
    let GetReviewRequest { repository_id, number, review_id } = request.into_inner();
    let pull = state.full_pull(RepositoryId(repository_id), number).await?;
    let pull = (pull.issue.repository, pull.issue.number);
    let review = encode::review(find(state, pull, review_id, viewer(&grant)).await?);
    version::tell(&review);
    Ok(GetReviewResponse { review: Some(review) })
}
