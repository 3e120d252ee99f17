//! Comments on issues. A route without the issue's number finds a comment by its id alone.

use ferrite_api_types::Comment;
use ferrite_api_types::convert::require;
use ferrite_proto::issue::{
    self, CreateCommentRequest, DeleteCommentRequest, GetCommentRequest, ListCommentsRequest, UpdateCommentRequest,
};
use ferrite_proto::operation;

use super::list_error;
use crate::api::access::{ResolvedAccess, after_refusal};
use crate::api::call::{ApiCall, Authenticated, MaybeAuthenticated, operations};
use crate::http::body_limits::MAX_TEXT_BODY_BYTES;
use crate::http::error::ApiResult;
use crate::http::filters::{QueryOf, filters};
use crate::http::page::{Total, WholeList};
use crate::http::path::{Params, RepoPath};
use crate::http::request::{LongText, RequestBody, Required, Time, fields};
use crate::http::response::{Created, Json, NoContent, TextList};
use crate::http::routes::variant;

operations! {
    "/api/v1/repos/{owner}/{repo}/issues/comments" => get list as variant(operation::LIST_COMMENTS, "OfRepository");
    "/api/v1/repos/{owner}/{repo}/issues/comments/{id}" =>
        get get as variant(operation::GET_COMMENT, "ById"),
        patch update as variant(operation::UPDATE_COMMENT, "ById"),
        delete remove as variant(operation::DELETE_COMMENT, "ById");
    "/api/v1/repos/{owner}/{repo}/issues/{index}/comments" =>
        get list as variant(operation::LIST_COMMENTS, "OfIssue"),
        post create as operation::CREATE_COMMENT;
    "/api/v1/repos/{owner}/{repo}/issues/{index}/comments/{id}" =>
        get get as variant(operation::GET_COMMENT, "OfIssue"),
        patch update as variant(operation::UPDATE_COMMENT, "OfIssue"),
        delete remove as variant(operation::DELETE_COMMENT, "OfIssue");
}

filters! {
    /// Filters of comments.
    struct CommentFilters {
        /// Only comments that were updated at this time or later.
        since: Time = "2026-01-02T03:04:05Z",
    }
}

fields! {
    /// A new comment.
    #[max_bytes = MAX_TEXT_BODY_BYTES]
    struct NewComment {
        body: Required<LongText> = "It happens on Linux too.",
    }
}

fields! {
    /// The new text of a comment.
    #[max_bytes = MAX_TEXT_BODY_BYTES]
    struct ChangedComment {
        body: Required<LongText> = "It happens on Linux and macOS too.",
    }
}

async fn list(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    params: Params,
    query: WholeList,
    filters: QueryOf<CommentFilters>,
) -> ApiResult<TextList<Comment>> {
    let access = call.access(&path, operation::LIST_COMMENTS).await?;
    let (repository_id, issue_number) = (access.id, params.id_or_zero("index"));
    let blank = ListCommentsRequest { repository_id, issue_number, ..Default::default() };
    let check = async { call.clients.comments().list_comments(call.blank_with_grant(&access.grant, blank)).await };
    let CommentFilters { since } = after_refusal(check, filters.read()).await?;
    let (page, page_size) = (query.page.number, query.page.size);
    let request = ListCommentsRequest { repository_id, issue_number, since, page, page_size };
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.comments().list_comments(request).await.map_err(list_error)?.into_inner();
    let accounts =
        call.accounts_beside_caller(&access, response.comments.iter().map(|comment| comment.user_id)).await?;
    let comments = response.comments.into_iter().map(|comment| Comment::new(comment, &accounts, &access.urls));
    let comments = comments.collect::<Result<Vec<_>, _>>()?;
    Ok(query.text_list(comments, Total::counted(response.total_count, response.is_partial), &call.links))
}

async fn get(MaybeAuthenticated(call): MaybeAuthenticated, path: RepoPath, params: Params) -> ApiResult<Json<Comment>> {
    let access = call.access(&path, operation::GET_COMMENT).await?;
    let request = GetCommentRequest {
        repository_id: access.id,
        issue_number: params.id_or_zero("index"),
        comment_id: params.id("id"),
    };
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.comments().get_comment(request).await?.into_inner();
    Ok(Json(convert_comment(&call, &access, response.comment).await?))
}

async fn create(
    Authenticated(call): Authenticated,
    path: RepoPath,
    params: Params,
    body: RequestBody<NewComment>,
) -> ApiResult<Created<Comment>> {
    let access = call.access(&path, operation::CREATE_COMMENT).await?;
    let blank =
        CreateCommentRequest { repository_id: access.id, issue_number: params.id("index"), body: String::new() };
    let check =
        async { call.clients.comments().create_comment(call.blank_with_grant(&access.grant, blank.clone())).await };
    let (NewComment { body }, _permit) = after_refusal(check, body.read(&call.body_limits).await).await?;
    let access = call.confirm(access, operation::CREATE_COMMENT).await?;
    let request = call.request_with_grant(&access.grant, CreateCommentRequest { body, ..blank });
    let response = call.clients.comments().create_comment(request).await?.into_inner();
    let made = require(response.comment, "comment")?;
    let location = format!("{}/issues/comments/{}", access.urls.api(), made.id);
    Ok(Created::at(location, convert_comment(&call, &access, Some(made)).await?))
}

async fn update(
    Authenticated(call): Authenticated,
    path: RepoPath,
    params: Params,
    body: RequestBody<ChangedComment>,
) -> ApiResult<Json<Comment>> {
    let access = call.access(&path, operation::UPDATE_COMMENT).await?;
    let blank = UpdateCommentRequest {
        repository_id: access.id,
        issue_number: params.id_or_zero("index"),
        comment_id: params.id("id"),
        body: String::new(),
    };
    let check =
        async { call.clients.comments().update_comment(call.blank_with_grant(&access.grant, blank.clone())).await };
    let (ChangedComment { body }, _permit) = after_refusal(check, body.read(&call.body_limits).await).await?;
    let access = call.confirm(access, operation::UPDATE_COMMENT).await?;
    let request = call.request_with_grant(&access.grant, UpdateCommentRequest { body, ..blank });
    let response = call.clients.comments().update_comment(request).await?.into_inner();
    Ok(Json(convert_comment(&call, &access, response.comment).await?))
}

async fn remove(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult<NoContent> {
    let access = call.access(&path, operation::DELETE_COMMENT).await?;
    let request = DeleteCommentRequest {
        repository_id: access.id,
        issue_number: params.id_or_zero("index"),
        comment_id: params.id("id"),
    };
    call.clients.comments().delete_comment(call.request_with_grant(&access.grant, request)).await?;
    Ok(NoContent)
}

async fn convert_comment(
    call: &ApiCall,
    access: &ResolvedAccess,
    comment: Option<issue::Comment>,
) -> ApiResult<Comment> {
    let comment = require(comment, "comment")?;
    let accounts = call.accounts_beside_caller(access, [comment.user_id]).await?;
    Ok(Comment::new(comment, &accounts, &access.urls)?)
}
