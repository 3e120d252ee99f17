//! The RPCs of comments of reviews.

use ferrite_core::page::Page;
use ferrite_db::idempotency::{IdempotencyKey, once, once_or_rebuild};
use ferrite_proto::Permission;
use ferrite_proto::grant::Grant;
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::issue::*;
use ferrite_rpc::version;
use tonic::Request;

use super::{MAX_PAGE_SIZE, find, viewer};
use crate::encode;
use crate::error::IssueError;
use crate::model::Body;
use crate::rpc::{require_author_or, user};
use crate::state::AppState;
use crate::store::{FoundReviewComment, ReviewCommentFilter};
use crate::writer::TextTargets;

/// Returns a comment of a review that `viewer` sees.
async fn find_comment(
    state: &AppState,
    repository: RepositoryId,
    id: i64,
    viewer: UserId,
) -> Result<FoundReviewComment, IssueError> {
    let found = state.store.review_comment(state.store.reader(), repository, id, viewer).await?;
    found.ok_or(IssueError::CommentNotFound)
}

pub(super) async fn list_review_comments(
    state: &AppState,
    request: Request<ListReviewCommentsRequest>,
) -> Result<ListReviewCommentsResponse, IssueError> {
    let grant = state.authorize_pulls(&request, request.get_ref().repository_id).await?;
    let request = request.into_inner();
    let page = Page::parse(request.page, request.page_size, MAX_PAGE_SIZE).map_err(IssueError::Invalid)?;
    let (repository, viewer) = (RepositoryId(request.repository_id), viewer(&grant));
    let full = state.full_pull(repository, request.number).await?;
    let review = match request.review_id {
        0 => None,
        id => Some(find(state, (repository, request.number), id, viewer).await?.id),
    };
    let filter = ReviewCommentFilter {
        issue: full.issue.id,
        review,
        viewer,
        since_us: request.since.map(encode::micros),
        is_resolved: request.is_resolved,
        is_newest_first: request.is_newest_first,
    };
    let (comments, total_count, is_partial) = state.store.list_review_comments(&filter, page).await?;
    let pull = full.pull_request.ok_or(IssueError::PullNotFound)?;
    Ok(ListReviewCommentsResponse {
        comments: comments.into_iter().map(encode::review_comment).collect(),
        total_count,
        head_id: pull.head_id,
        merge_base_id: pull.merge_base_id,
        is_partial,
    })
}

pub(super) async fn get_review_comment(
    state: &AppState,
    request: Request<GetReviewCommentRequest>,
) -> Result<GetReviewCommentResponse, IssueError> {
    let grant = state.authorize_pulls(&request, request.get_ref().repository_id).await?;
    let GetReviewCommentRequest { repository_id, comment_id } = request.into_inner();
    let found = find_comment(state, RepositoryId(repository_id), comment_id, viewer(&grant)).await?;
    let comment = encode::review_comment(found.comment);
    version::tell(&comment);
    let (head_id, merge_base_id) = (found.head_id, found.merge_base_id);
    Ok(GetReviewCommentResponse { comment: Some(comment), head_id, merge_base_id })
}

pub(super) async fn update_review_comment(
    state: &AppState,
    request: Request<UpdateReviewCommentRequest>,
) -> Result<UpdateReviewCommentResponse, IssueError> {
    let grant = state.authorize_pulls(&request, request.get_ref().repository_id).await?;
    let actor = user(&grant)?;
    let key = IdempotencyKey::of(&request, actor.0, "UpdateReviewComment")?;
    let request = request.into_inner();
    let (repository, id) = (RepositoryId(request.repository_id), request.comment_id);
    // Readers get a grant to edit too. Check who may edit this one even if the request is a repeat.
    let found = find_comment(state, repository, id, actor).await?;
    require_author_or(&grant, found.comment.author, Permission::Admin)?;
    let update = async {
        let body = Body::parse_comment(request.body)?;
        state.limits.count_text(&grant, body.as_str().len()).await?;
        let targets = match found.is_pending {
            true => TextTargets::default(),
            false => state.targets(repository, actor, body.as_str()).await?,
        };
        let mut write = state.writer.begin_pull(repository).await?;
        let now = write.review_comment(id, actor).await?;
        require_author_or(&grant, now.comment.author, Permission::Admin)?;
        write.require_review_comment(&now.comment)?;
        if now.is_pending != found.is_pending {
            return Err(IssueError::ReviewChanged);
        }
        let response = updated(write.change_review_comment(now, &body, &targets, actor).await?);
        write.commit_with_subject(key.as_ref(), response, id).await
    };
    let rebuild = |id: i64| async move { Ok(updated(find_comment(state, repository, id, actor).await?)) };
    once_or_rebuild(state.store.db(), key.as_ref(), rebuild, update).await
}

fn updated(found: FoundReviewComment) -> UpdateReviewCommentResponse {
    UpdateReviewCommentResponse {
        comment: Some(encode::review_comment(found.comment)),
        head_id: found.head_id,
        merge_base_id: found.merge_base_id,
    }
}

pub(super) async fn delete_review_comment(
    state: &AppState,
    request: Request<DeleteReviewCommentRequest>,
) -> Result<DeleteReviewCommentResponse, IssueError> {
    let grant = state.authorize_pulls(&request, request.get_ref().repository_id).await?;
    let actor = user(&grant)?;
    let key = IdempotencyKey::of(&request, actor.0, "DeleteReviewComment")?;
    let request = request.into_inner();
    let delete = async {
        let mut write = state.writer.begin_pull(RepositoryId(request.repository_id)).await?;
        let found = write.review_comment(request.comment_id, actor).await?;
        require_author_or(&grant, found.comment.author, Permission::Admin)?;
        write.require_review_comment(&found.comment)?;
        write.delete_review_comment(found, actor).await?;
        write.commit(key.as_ref(), DeleteReviewCommentResponse {}).await
    };
    once(state.store.db(), key.as_ref(), delete).await
}

pub(super) async fn resolve_review_comment(
    state: &AppState,
    request: Request<ResolveReviewCommentRequest>,
) -> Result<ResolveReviewCommentResponse, IssueError> {
    let grant = state.authorize_pulls(&request, request.get_ref().repository_id).await?;
    let actor = user(&grant)?;
    let key = IdempotencyKey::of(&request, actor.0, "ResolveReviewComment")?;
    let ResolveReviewCommentRequest { repository_id, comment_id } = request.into_inner();
    let resolve = async {
        let place = (RepositoryId(repository_id), comment_id);
        set_resolved(state, &grant, place, Some(actor), key.as_ref(), ResolveReviewCommentResponse {}).await
    };
    once(state.store.db(), key.as_ref(), resolve).await
}

pub(super) async fn unresolve_review_comment(
    state: &AppState,
    request: Request<UnresolveReviewCommentRequest>,
) -> Result<UnresolveReviewCommentResponse, IssueError> {
    let grant = state.authorize_pulls(&request, request.get_ref().repository_id).await?;
    let actor = user(&grant)?;
    let key = IdempotencyKey::of(&request, actor.0, "UnresolveReviewComment")?;
    let UnresolveReviewCommentRequest { repository_id, comment_id } = request.into_inner();
    let unresolve = async {
        let place = (RepositoryId(repository_id), comment_id);
        set_resolved(state, &grant, place, None, key.as_ref(), UnresolveReviewCommentResponse {}).await
    };
    once(state.store.db(), key.as_ref(), unresolve).await
}

/// Marks a comment of a submitted review as resolved by `resolver`, or as not resolved.
async fn set_resolved<A: prost::Message>(
    state: &AppState,
    grant: &Grant,
    (repository, id): (RepositoryId, i64),
    resolver: Option<UserId>,
    key: Option<&IdempotencyKey>,
    response: A,
) -> Result<A, IssueError> {
    state.limits.count_text(grant, 0).await?;
    let mut write = state.writer.begin_pull(repository).await?;
    let found = write.review_comment(id, viewer(grant)).await?;
    if found.is_pending {
        return Err(IssueError::CommentNotFound);
    }
    let author = found.comment.author;
    let own = if grant.user_id() == Some(author) { author } else { found.pull_author };
    require_author_or(grant, own, Permission::Write)?;
    write.require_review_comment(&found.comment)?;
    write.resolve_review_comment(&found.comment, resolver).await?;
    write.commit(key, response).await
}
