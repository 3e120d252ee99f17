//! Comments on issues. A route without the number of the issue finds a comment by its id alone.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ferrite_proto::issue::{
    self, CreateCommentRequest, DeleteCommentRequest, GetCommentRequest, ListCommentsRequest, UpdateCommentRequest,
};
use ferrite_proto::operation;

use super::access::Access;
use super::state::ApiState;
use super::tracker::{decode_text_body, limit_text, list_error, list_headers, prefer_refusal};
use crate::auth::{Authenticated, RequestContext};
use crate::dto::{Comment, require};
use crate::http::body::JsonBody;
use crate::http::error::ApiError;
use crate::http::fields::FieldReader;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::{Params, RepoPath};
use crate::http::query::Query;
use crate::http::routes::routes;

/// Reasons for a missing target, which is told after mistakes in the request.
const MISSING: &[&str] = &["ISSUE_NOT_FOUND", "COMMENT_NOT_FOUND"];

routes! { ApiState:
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

async fn list(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    params: Params,
    query: Query,
) -> Result<Response, ApiError> {
    let access = api.access(&context, &path, operation::LIST_COMMENTS).await?;
    let page = query.page(PageLimits::WHOLE_LIST);
    let request = ListCommentsRequest {
        repository_id: access.id,
        issue_number: params.id_or_zero("index"),
        since: None,
        page: page.number,
        page_size: page.size,
    };
    let since = match query.time("since") {
        Ok(since) => since,
        Err(error) => {
            let check = ListCommentsRequest { page: 1, page_size: 1, ..request };
            let check = api.clients.comments().list_comments(context.check_with_grant(&access.grant, check)).await;
            return Err(prefer_refusal(check, ApiError::invalid(vec![error]), MISSING));
        }
    };
    let request = context.request_with_grant(&access.grant, ListCommentsRequest { since, ..request });
    let answer = api.clients.comments().list_comments(request).await.map_err(list_error)?.into_inner();
    let accounts =
        api.accounts_beside_caller(&context, &access, answer.comments.iter().map(|comment| comment.user_id)).await?;
    let comments = answer.comments.into_iter().map(|comment| Comment::new(comment, &accounts, &access.urls));
    let comments = comments.collect::<Result<Vec<_>, _>>()?;
    Ok(json::page_of_texts(comments, list_headers(&query, page, answer.total_count, answer.is_partial, &api.links)))
}

async fn get(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    params: Params,
) -> Result<Response, ApiError> {
    let access = api.access(&context, &path, operation::GET_COMMENT).await?;
    let request = GetCommentRequest {
        repository_id: access.id,
        issue_number: params.id_or_zero("index"),
        comment_id: params.id("id"),
    };
    let request = context.request_with_grant(&access.grant, request);
    let answer = api.clients.comments().get_comment(request).await?.into_inner();
    Ok(json::ok(convert_comment(&api, &context, &access, answer.comment).await?))
}

async fn create(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    params: Params,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let access = api.access(&context, &path, operation::CREATE_COMMENT).await?;
    let target = CreateCommentRequest {
        repository_id: access.id,
        issue_number: params.id("index"),
        body: String::new(),
        check_only: false,
    };
    let (text, _permit) = match decode_text_body(body, &api.body_limits, text).await {
        Ok(decoded) => decoded,
        Err(error) => {
            let check = context.check_with_grant(&access.grant, CreateCommentRequest { check_only: true, ..target });
            return Err(prefer_refusal(api.clients.comments().create_comment(check).await, error, MISSING));
        }
    };
    let request = context.request_with_grant(&access.grant, CreateCommentRequest { body: text, ..target });
    let answer = api.clients.comments().create_comment(request).await?.into_inner();
    Ok(json::created(convert_comment(&api, &context, &access, answer.comment).await?))
}

async fn update(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    params: Params,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let access = api.access(&context, &path, operation::UPDATE_COMMENT).await?;
    let target = UpdateCommentRequest {
        repository_id: access.id,
        issue_number: params.id_or_zero("index"),
        comment_id: params.id("id"),
        body: String::new(),
        check_only: false,
    };
    let (text, _permit) = match decode_text_body(body, &api.body_limits, text).await {
        Ok(decoded) => decoded,
        Err(error) => {
            // A comment that the caller may not change comes before mistakes in the body.
            let check = context.check_with_grant(&access.grant, UpdateCommentRequest { check_only: true, ..target });
            return Err(prefer_refusal(api.clients.comments().update_comment(check).await, error, MISSING));
        }
    };
    let request = context.request_with_grant(&access.grant, UpdateCommentRequest { body: text, ..target });
    let answer = api.clients.comments().update_comment(request).await?.into_inner();
    Ok(json::ok(convert_comment(&api, &context, &access, answer.comment).await?))
}

async fn remove(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    params: Params,
) -> Result<Response, ApiError> {
    let access = api.access(&context, &path, operation::DELETE_COMMENT).await?;
    let request = DeleteCommentRequest {
        repository_id: access.id,
        issue_number: params.id_or_zero("index"),
        comment_id: params.id("id"),
    };
    api.clients.comments().delete_comment(context.request_with_grant(&access.grant, request)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Reads the text of a comment.
fn text(fields: &mut FieldReader) -> String {
    let text = fields.required_non_empty("body");
    limit_text(fields, "body", text)
}

/// Converts a comment of a response, with its account.
async fn convert_comment(
    api: &ApiState,
    context: &RequestContext,
    access: &Access,
    comment: Option<issue::Comment>,
) -> Result<Comment, ApiError> {
    let comment = require(comment, "comment")?;
    let accounts = api.accounts_beside_caller(context, access, [comment.user_id]).await?;
    Ok(Comment::new(comment, &accounts, &access.urls)?)
}
