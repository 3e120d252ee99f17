use ferrite_core::page::Page;
use ferrite_db::idempotency::{IdempotencyError, IdempotencyKey, once, once_or_rebuild};
use ferrite_listener::service;
use ferrite_proto::Permission;
use ferrite_proto::grant::Grant;
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::comment_service_server::CommentService;
use ferrite_proto::issue::*;
use ferrite_rpc::version;
use tonic::Request;

use super::{require_author_or, user};
use crate::encode;
use crate::error::IssueError;
use crate::model::Body;
use crate::state::AppState;
use crate::store::CounterChange;

const MAX_PAGE_SIZE: i32 = 1000;

service!(CommentService for AppState {
    list_comments(ListCommentsRequest) -> ListCommentsResponse;
    get_comment(GetCommentRequest) -> GetCommentResponse;
    create_comment(CreateCommentRequest) -> CreateCommentResponse;
    update_comment(UpdateCommentRequest) -> UpdateCommentResponse;
    delete_comment(DeleteCommentRequest) -> DeleteCommentResponse;
});

async fn list_comments(
    state: &AppState,
    request: Request<ListCommentsRequest>,
) -> Result<ListCommentsResponse, IssueError> {
    let ListCommentsRequest { repository_id, issue_number, .. } = *request.get_ref();
    match issue_number {
        0 => state.authorize(&request, repository_id).await?,
        number => state.authorize_on(&request, repository_id, number).await?,
    };
    let request = request.into_inner();
    let page = Page::parse(request.page, request.page_size, MAX_PAGE_SIZE).map_err(IssueError::Invalid)?;
    let repository = RepositoryId(request.repository_id);
    let since_us = request.since.map(encode::micros);
    let page = if request.issue_number == 0 {
        state.store.list_repository_comments(repository, since_us, page).await?
    } else {
        let issue = state.issue(repository, request.issue_number).await?;
        state.store.list_issue_comments(&issue, since_us, page).await?
    };
    let comments = page.comments.into_iter().map(encode::comment).collect();
    Ok(ListCommentsResponse { comments, total_count: page.total, is_partial: page.is_partial })
}

async fn get_comment(state: &AppState, request: Request<GetCommentRequest>) -> Result<GetCommentResponse, IssueError> {
    let GetCommentRequest { repository_id, issue_number, comment_id } = *request.get_ref();
    state.authorize_on_comment(&request, repository_id, (issue_number, comment_id)).await?;
    let comment = encode::comment(state.comment(RepositoryId(repository_id), issue_number, comment_id).await?);
    version::tell(&comment);
    Ok(GetCommentResponse { comment: Some(comment) })
}

async fn create_comment(
    state: &AppState,
    request: Request<CreateCommentRequest>,
) -> Result<CreateCommentResponse, IssueError> {
    let (repository_id, number) = (request.get_ref().repository_id, request.get_ref().issue_number);
    let grant = state.authorize_on(&request, repository_id, number).await?;
    let author = user(&grant)?;
    let key = IdempotencyKey::of(&request, author.0, "CreateComment")?;
    let request = request.into_inner();
    let repository = RepositoryId(request.repository_id);
    let create = async {
        let body = Body::parse_comment(request.body)?;
        state.limits.count_comment(&grant, body.as_str().len()).await?;
        let targets = state.targets(repository, author, body.as_str()).await?;
        let change = CounterChange { comments: 1, ..CounterChange::default() };
        let mut write = state.writer.begin(repository, change).await?;
        let issue = write.issue(request.issue_number).await?;
        let comment = write.add_comment(&issue, author, &body, &targets).await?;
        let (id, response) = (comment.id, CreateCommentResponse { comment: Some(encode::comment(comment)) });
        write.commit_with_subject(key.as_ref(), response, id).await
    };
    let rebuild = |id: i64| async move {
        Ok(CreateCommentResponse { comment: Some(encode::comment(state.comment(repository, number, id).await?)) })
    };
    once_or_rebuild(state.store.db(), key.as_ref(), rebuild, create).await
}

async fn update_comment(
    state: &AppState,
    request: Request<UpdateCommentRequest>,
) -> Result<UpdateCommentResponse, IssueError> {
    let UpdateCommentRequest { repository_id, issue_number, comment_id, .. } = *request.get_ref();
    let grant = state.authorize_on_comment(&request, repository_id, (issue_number, comment_id)).await?;
    let actor = user(&grant)?;
    let key = IdempotencyKey::of(&request, actor.0, "UpdateComment")?;
    let request = request.into_inner();
    if let Some(key) = &key
        && key.is_used(state.store.db()).await.map_err(IdempotencyError::from)?
    {
        // Readers get a grant to edit too. Check who may edit this comment even if the request is a
        // repeat.
        check_update(state, &grant, &request).await?;
    }
    let update = async {
        let repository = RepositoryId(request.repository_id);
        let body = match Body::parse_comment(request.body.clone()) {
            Ok(body) => body,
            Err(violation) => {
                check_update(state, &grant, &request).await?;
                return Err(violation.into());
            }
        };
        state.limits.count_text(&grant, body.as_str().len()).await?;
        let targets = state.targets(repository, actor, body.as_str()).await?;
        let mut write = state.writer.begin(repository, CounterChange::default()).await?;
        let comment = write.comment(request.issue_number, request.comment_id).await?;
        require_author_or(&grant, comment.author, Permission::Admin)?;
        write.require_comment(&comment)?;
        let comment = write.change_comment(comment, &body, &targets, actor).await?;
        let (id, response) = (comment.id, UpdateCommentResponse { comment: Some(encode::comment(comment)) });
        write.commit_with_subject(key.as_ref(), response, id).await
    };
    let (repository, number) = (RepositoryId(request.repository_id), request.issue_number);
    let rebuild = |id: i64| async move {
        Ok(UpdateCommentResponse { comment: Some(encode::comment(state.comment(repository, number, id).await?)) })
    };
    once_or_rebuild(state.store.db(), key.as_ref(), rebuild, update).await
}

/// Checks that the caller may change the comment, if it exists.
async fn check_update(state: &AppState, grant: &Grant, request: &UpdateCommentRequest) -> Result<(), IssueError> {
    let store = &state.store;
    let UpdateCommentRequest { repository_id, issue_number, comment_id, .. } = request;
    let comment = store.comment(store.reader(), RepositoryId(*repository_id), *issue_number, *comment_id).await?;
    comment.map_or(Ok(()), |comment| require_author_or(grant, comment.author, Permission::Admin))
}

async fn delete_comment(
    state: &AppState,
    request: Request<DeleteCommentRequest>,
) -> Result<DeleteCommentResponse, IssueError> {
    let DeleteCommentRequest { repository_id, issue_number, comment_id } = *request.get_ref();
    let grant = state.authorize_on_comment(&request, repository_id, (issue_number, comment_id)).await?;
    let actor = user(&grant)?;
    let key = IdempotencyKey::of(&request, actor.0, "DeleteComment")?;
    let request = request.into_inner();
    let delete = async {
        let mut write = state.writer.begin(RepositoryId(request.repository_id), CounterChange::default()).await?;
        let comment = write.comment(request.issue_number, request.comment_id).await?;
        require_author_or(&grant, comment.author, Permission::Admin)?;
        write.require_comment(&comment)?;
        write.delete_comment(comment, actor).await?;
        write.commit(key.as_ref(), DeleteCommentResponse {}).await
    };
    once(state.store.db(), key.as_ref(), delete).await
}
