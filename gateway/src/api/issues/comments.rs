//! Comments on issues. A route without the number of the issue finds a comment by its id alone.

use ferrite_proto::issue::{
    self, CreateCommentRequest, DeleteCommentRequest, GetCommentRequest, ListCommentsRequest, UpdateCommentRequest,
};
use ferrite_proto::operation;

use super::{limit_text, list_error, list_headers};
use crate::api::access::{ResolvedAccess, after_refusal};
use crate::api::call::{ApiCall, Authenticated, routes};
use crate::dto::{Comment, require};
use crate::http::body::JsonBody;
use crate::http::body_limits::MAX_TEXT_BODY_BYTES;
use crate::http::error::{ApiError, ApiResult};
use crate::http::fields::FieldReader;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::{Params, RepoPath};
use crate::http::query::Query;

routes! {
    "/api/v1/repos/{owner}/{repo}/issues/comments" => get list as operation::LIST_COMMENTS;
    "/api/v1/repos/{owner}/{repo}/issues/comments/{id}" =>
        get get as operation::GET_COMMENT,
        patch update as operation::UPDATE_COMMENT,
        delete remove as operation::DELETE_COMMENT;
    "/api/v1/repos/{owner}/{repo}/issues/{index}/comments" =>
        get list as operation::LIST_COMMENTS,
        post create as operation::CREATE_COMMENT;
    "/api/v1/repos/{owner}/{repo}/issues/{index}/comments/{id}" =>
        get get as operation::GET_COMMENT,
        patch update as operation::UPDATE_COMMENT,
        delete remove as operation::DELETE_COMMENT;
}

async fn list(Authenticated(call): Authenticated, path: RepoPath, params: Params, query: Query) -> ApiResult {
    let access = call.access(&path, operation::LIST_COMMENTS).await?;
    let (repository_id, issue_number) = (access.id, params.id_or_zero("index"));
    let blank = ListCommentsRequest { repository_id, issue_number, ..Default::default() };
    let check = async { call.clients.comments().list_comments(call.blank_with_grant(&access.grant, blank)).await };
    let since = query.time("since").map_err(|error| ApiError::invalid(vec![error]));
    let since = after_refusal(check, since).await?;
    let page = query.page(PageLimits::WHOLE_LIST);
    let request = ListCommentsRequest { repository_id, issue_number, since, page: page.number, page_size: page.size };
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.comments().list_comments(request).await.map_err(list_error)?.into_inner();
    let accounts =
        call.accounts_beside_caller(&access, response.comments.iter().map(|comment| comment.user_id)).await?;
    let comments = response.comments.into_iter().map(|comment| Comment::new(comment, &accounts, &access.urls));
    let comments = comments.collect::<Result<Vec<_>, _>>()?;
    Ok(json::page_of_texts(
        comments,
        list_headers(&query, page, response.total_count, response.is_partial, &call.links),
    ))
}

async fn get(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult {
    let access = call.access(&path, operation::GET_COMMENT).await?;
    let request = GetCommentRequest {
        repository_id: access.id,
        issue_number: params.id_or_zero("index"),
        comment_id: params.id("id"),
    };
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.comments().get_comment(request).await?.into_inner();
    Ok(json::ok(convert_comment(&call, &access, response.comment).await?))
}

async fn create(Authenticated(call): Authenticated, path: RepoPath, params: Params, body: JsonBody) -> ApiResult {
    let access = call.access(&path, operation::CREATE_COMMENT).await?;
    let blank =
        CreateCommentRequest { repository_id: access.id, issue_number: params.id("index"), body: String::new() };
    let check =
        async { call.clients.comments().create_comment(call.blank_with_grant(&access.grant, blank.clone())).await };
    let decoded = body.decode(&call.body_limits, MAX_TEXT_BODY_BYTES, text).await;
    let (text, _permit) = after_refusal(check, decoded).await?;
    let access = call.confirm(access, operation::CREATE_COMMENT).await?;
    let request = call.request_with_grant(&access.grant, CreateCommentRequest { body: text, ..blank });
    let response = call.clients.comments().create_comment(request).await?.into_inner();
    Ok(json::created(convert_comment(&call, &access, response.comment).await?))
}

async fn update(Authenticated(call): Authenticated, path: RepoPath, params: Params, body: JsonBody) -> ApiResult {
    let access = call.access(&path, operation::UPDATE_COMMENT).await?;
    let blank = UpdateCommentRequest {
        repository_id: access.id,
        issue_number: params.id_or_zero("index"),
        comment_id: params.id("id"),
        body: String::new(),
    };
    let check =
        async { call.clients.comments().update_comment(call.blank_with_grant(&access.grant, blank.clone())).await };
    let decoded = body.decode(&call.body_limits, MAX_TEXT_BODY_BYTES, text).await;
    let (text, _permit) = after_refusal(check, decoded).await?;
    let access = call.confirm(access, operation::UPDATE_COMMENT).await?;
    let request = call.request_with_grant(&access.grant, UpdateCommentRequest { body: text, ..blank });
    let response = call.clients.comments().update_comment(request).await?.into_inner();
    Ok(json::ok(convert_comment(&call, &access, response.comment).await?))
}

async fn remove(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult {
    let access = call.access(&path, operation::DELETE_COMMENT).await?;
    let request = DeleteCommentRequest {
        repository_id: access.id,
        issue_number: params.id_or_zero("index"),
        comment_id: params.id("id"),
    };
    call.clients.comments().delete_comment(call.request_with_grant(&access.grant, request)).await?;
    Ok(json::no_content())
}

/// Reads the text of a comment.
fn text(fields: &mut FieldReader) -> String {
    let text = fields.required_non_empty("body");
    limit_text(fields, "body", text)
}

/// Converts a comment of a response, with its account.
async fn convert_comment(
    call: &ApiCall,
    access: &ResolvedAccess,
    comment: Option<issue::Comment>,
) -> Result<Comment, ApiError> {
    let comment = require(comment, "comment")?;
    let accounts = call.accounts_beside_caller(access, [comment.user_id]).await?;
    Ok(Comment::new(comment, &accounts, &access.urls)?)
}
