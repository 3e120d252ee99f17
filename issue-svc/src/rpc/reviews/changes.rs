//! DeleteReview, DismissReview and UndismissReview.

use ferrite_db::idempotency::{IdempotencyKey, once, once_or_rebuild};
use ferrite_proto::Permission;
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::*;
use tonic::Request;

use super::find;
use crate::encode;
use crate::error::IssueError;
use crate::model::check_dismissal;
use crate::rpc::{require_author_or, user};
use crate::state::AppState;

pub(super) async fn delete_review(
    state: &AppState,
    request: Request<DeleteReviewRequest>,
) -> Result<DeleteReviewResponse, IssueError> {
    let grant = state.authorize_pulls(&request, request.get_ref().repository_id).await?;
    let actor = user(&grant)?;
    let key = IdempotencyKey::of(&request, actor.0, "DeleteReview")?;
    let request = request.into_inner();
    let delete = async {
        let mut write = state.writer.begin_pull(RepositoryId(request.repository_id)).await?;
        let (issue, _) = write.pull(request.number).await?;
        let review = write.review(request.number, request.review_id, actor).await?;
        if review.state == ReviewState::Requested {
            return Err(IssueError::ReviewNotFound);
        }
        require_author_or(&grant, review.user, Permission::Admin)?;
        write.require_review(&review)?;
        state.pulls.retry_merge(&mut write, (RepositoryId(request.repository_id), issue.id, request.number)).await?;
        write.delete_review(issue, review).await?;
        write.commit(key.as_ref(), DeleteReviewResponse {}).await
    };
    once(state.store.db(), key.as_ref(), delete).await
}

pub(super) async fn dismiss_review(
    state: &AppState,
    request: Request<DismissReviewRequest>,
) -> Result<DismissReviewResponse, IssueError> {
    let grant = state.authorize_pulls(&request, request.get_ref().repository_id).await?;
    let actor = user(&grant)?;
    let key = IdempotencyKey::of(&request, actor.0, "DismissReview")?;
    let request = request.into_inner();
    let (repository, number) = (RepositoryId(request.repository_id), request.number);
    let dismiss = async {
        let message = check_dismissal(&request.message)?;
        state.limits.count_text(&grant, message.len()).await?;
        let mut write = state.writer.begin_pull(repository).await?;
        let (issue, _) = write.pull(number).await?;
        let review = write.review(number, request.review_id, actor).await?;
        write.require_review(&review)?;
        state.pulls.retry_merge(&mut write, (repository, issue.id, number)).await?;
        let review = write.dismiss_review(&issue, review, (&message, request.with_priors), actor).await?;
        let (id, response) = (review.id, DismissReviewResponse { review: Some(encode::review(review)) });
        write.commit_with_subject(key.as_ref(), response, id).await
    };
    let rebuild = |id: i64| async move {
        Ok(DismissReviewResponse { review: Some(encode::review(find(state, (repository, number), id, actor).await?)) })
    };
    once_or_rebuild(state.store.db(), key.as_ref(), rebuild, dismiss).await
}

pub(super) async fn undismiss_review(
    state: &AppState,
    request: Request<UndismissReviewRequest>,
) -> Result<UndismissReviewResponse, IssueError> {
    let grant = state.authorize_pulls(&request, request.get_ref().repository_id).await?;
    let actor = user(&grant)?;
    let key = IdempotencyKey::of(&request, actor.0, "UndismissReview")?;
    let request = request.into_inner();
    let (repository, number) = (RepositoryId(request.repository_id), request.number);
    let undismiss = async {
        state.limits.count_text(&grant, 0).await?;
        let mut write = state.writer.begin_pull(repository).await?;
        let (issue, _) = write.pull(number).await?;
        let review = write.review(number, request.review_id, actor).await?;
        write.require_review(&review)?;
        state.pulls.retry_merge(&mut write, (repository, issue.id, number)).await?;
        let review = write.undismiss_review(&issue, review, actor).await?;
        let (id, response) = (review.id, UndismissReviewResponse { review: Some(encode::review(review)) });
        write.commit_with_subject(key.as_ref(), response, id).await
    };
    let rebuild = |id: i64| async move {
        Ok(UndismissReviewResponse {
            review: Some(encode::review(find(state, (repository, number), id, actor).await?)),
        })
    };
    once_or_rebuild(state.store.db(), key.as_ref(), rebuild, undismiss).await
}
