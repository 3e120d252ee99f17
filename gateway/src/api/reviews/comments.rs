//! Comments of reviews. Their lines are followed from the commit that was reviewed to the head.

use std::collections::BTreeSet;
use std::time::Duration;

use ferrite_api_types::ReviewComment;
use ferrite_api_types::convert::require;
use ferrite_proto::git::{FollowLinesRequest, FollowedLines};
use ferrite_proto::issue::{
    self, DeleteReviewCommentRequest, GetReviewCommentRequest, ListReviewCommentsRequest, ResolveReviewCommentRequest,
    UnresolveReviewCommentRequest, UpdateReviewCommentRequest,
};
use ferrite_proto::operation;
use ferrite_proto::repo::RepositoryRef;
use ferrite_rpc::grpc::with_timeout;

use crate::api::access::{ResolvedAccess, after_refusal};
use crate::api::call::{ApiCall, Authenticated, MaybeAuthenticated, operations};
use crate::api::git::response::read_error;
use crate::http::body::NoBody;
use crate::http::body_limits::MAX_TEXT_BODY_BYTES;
use crate::http::error::ApiResult;
use crate::http::filters::{OptionalFlag, QueryOf, filters};
use crate::http::page::{ExtensionList, Total, WholeList};
use crate::http::path::{Params, RepoPath};
use crate::http::request::{LongText, RequestBody, Required, Time, Word, fields};
use crate::http::response::{Json, NoContent, TextList};
use crate::http::routes::variant;
use crate::http::words::words;

const FOLLOW_TIMEOUT: Duration = Duration::from_secs(60);

operations! {
    "/api/v1/repos/{owner}/{repo}/pulls/{index}/comments" =>
        get list_of_pull as variant(operation::LIST_REVIEW_COMMENTS, "OfPull");
    "/api/v1/repos/{owner}/{repo}/pulls/{index}/reviews/{id}/comments" => get list as operation::LIST_REVIEW_COMMENTS;
    "/api/v1/repos/{owner}/{repo}/pulls/comments/{id}" =>
        get get as operation::GET_REVIEW_COMMENT,
        patch update as operation::UPDATE_REVIEW_COMMENT,
        delete remove as operation::DELETE_REVIEW_COMMENT;
    "/api/v1/repos/{owner}/{repo}/pulls/comments/{id}/resolve" => post resolve as operation::RESOLVE_REVIEW_COMMENT;
    "/api/v1/repos/{owner}/{repo}/pulls/comments/{id}/unresolve" =>
        post unresolve as operation::UNRESOLVE_REVIEW_COMMENT;
}

words! {
    /// Whether the newest come first.
    enum Direction: bool { "asc" = false, "desc" = true }
}

filters! {
    /// Which comments on lines to list, and in which order.
    struct LineCommentFilters {
        /// Only comments that were changed at this time or later.
        since: Time = "2026-01-02T03:04:05Z",
        /// Only comments that are resolved, or only those that are not.
        is_resolved: OptionalFlag = false,
        /// The order: `asc`, oldest first, is the default.
        direction: Word<Direction> = "desc",
    }
}

fields! {
    /// The new text of a comment.
    #[max_bytes = MAX_TEXT_BODY_BYTES]
    struct ChangedReviewComment {
        body: Required<LongText> = "Why not?",
    }
}

/// The commits that the lines of comments are followed to.
struct Ends {
    head_id: String,
    merge_base_id: String,
}

async fn list(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    params: Params,
    query: WholeList,
) -> ApiResult<TextList<ReviewComment>> {
    let access = call.access(&path, operation::LIST_REVIEW_COMMENTS).await?;
    let request = ListReviewCommentsRequest {
        repository_id: access.id,
        number: params.id("index"),
        review_id: params.id("id"),
        page: query.page.number,
        page_size: query.page.size,
        ..Default::default()
    };
    let (comments, total) = listed(&call, &access, request).await?;
    Ok(query.text_list(comments, total, &call.links))
}

async fn list_of_pull(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    params: Params,
    query: ExtensionList,
    filters: QueryOf<LineCommentFilters>,
) -> ApiResult<TextList<ReviewComment>> {
    let access = call.access(&path, operation::LIST_REVIEW_COMMENTS).await?;
    let (repository_id, number) = (access.id, params.id("index"));
    let blank = ListReviewCommentsRequest { repository_id, number, ..Default::default() };
    let check =
        async { call.clients.reviews().list_review_comments(call.blank_with_grant(&access.grant, blank)).await };
    let LineCommentFilters { since, is_resolved, direction } = after_refusal(check, filters.read()).await?;
    let request = ListReviewCommentsRequest {
        page: query.page.number,
        page_size: query.page.size,
        since,
        is_resolved,
        is_newest_first: direction.unwrap_or(false),
        ..blank
    };
    let (comments, total) = listed(&call, &access, request).await?;
    Ok(query.text_list(comments, total, &call.links))
}

async fn listed(
    call: &ApiCall,
    access: &ResolvedAccess,
    request: ListReviewCommentsRequest,
) -> ApiResult<(Vec<ReviewComment>, Total)> {
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.reviews().list_review_comments(request).await?.into_inner();
    let ends = Ends { head_id: response.head_id, merge_base_id: response.merge_base_id };
    let comments = convert(call, access, response.comments, &ends).await?;
    Ok((comments, Total::counted(response.total_count, response.is_partial)))
}

async fn get(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    params: Params,
) -> ApiResult<Json<ReviewComment>> {
    let access = call.access(&path, operation::GET_REVIEW_COMMENT).await?;
    let request = GetReviewCommentRequest { repository_id: access.id, comment_id: params.id("id") };
    let request = call.request_with_grant(&access.grant, request);
    let found = call.clients.reviews().get_review_comment(request).await?.into_inner();
    let ends = Ends { head_id: found.head_id, merge_base_id: found.merge_base_id };
    Ok(Json(convert_one(&call, &access, found.comment, &ends).await?))
}

async fn update(
    Authenticated(call): Authenticated,
    path: RepoPath,
    params: Params,
    body: RequestBody<ChangedReviewComment>,
) -> ApiResult<Json<ReviewComment>> {
    let access = call.access(&path, operation::UPDATE_REVIEW_COMMENT).await?;
    let blank =
        UpdateReviewCommentRequest { repository_id: access.id, comment_id: params.id("id"), body: String::new() };
    let check = async {
        call.clients.reviews().update_review_comment(call.blank_with_grant(&access.grant, blank.clone())).await
    };
    let (ChangedReviewComment { body }, _permit) = after_refusal(check, body.read(&call.body_limits).await).await?;
    let access = call.confirm(access, operation::UPDATE_REVIEW_COMMENT).await?;
    let request = call.request_with_grant(&access.grant, UpdateReviewCommentRequest { body, ..blank });
    let changed = call.clients.reviews().update_review_comment(request).await?.into_inner();
    let ends = Ends { head_id: changed.head_id, merge_base_id: changed.merge_base_id };
    Ok(Json(convert_one(&call, &access, changed.comment, &ends).await?))
}

async fn remove(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult<NoContent> {
    let access = call.access(&path, operation::DELETE_REVIEW_COMMENT).await?;
    let request = DeleteReviewCommentRequest { repository_id: access.id, comment_id: params.id("id") };
    call.clients.reviews().delete_review_comment(call.request_with_grant(&access.grant, request)).await?;
    Ok(NoContent)
}

async fn resolve(
    Authenticated(call): Authenticated,
    path: RepoPath,
    params: Params,
    body: NoBody,
) -> ApiResult<NoContent> {
    let access = call.access(&path, operation::RESOLVE_REVIEW_COMMENT).await?;
    body.read()?;
    let request = ResolveReviewCommentRequest { repository_id: access.id, comment_id: params.id("id") };
    call.clients.reviews().resolve_review_comment(call.request_with_grant(&access.grant, request)).await?;
    Ok(NoContent)
}

async fn unresolve(
    Authenticated(call): Authenticated,
    path: RepoPath,
    params: Params,
    body: NoBody,
) -> ApiResult<NoContent> {
    let access = call.access(&path, operation::UNRESOLVE_REVIEW_COMMENT).await?;
    body.read()?;
    let request = UnresolveReviewCommentRequest { repository_id: access.id, comment_id: params.id("id") };
    call.clients.reviews().unresolve_review_comment(call.request_with_grant(&access.grant, request)).await?;
    Ok(NoContent)
}

async fn convert_one(
    call: &ApiCall,
    access: &ResolvedAccess,
    comment: Option<issue::ReviewComment>,
    ends: &Ends,
) -> ApiResult<ReviewComment> {
    let shown = convert(call, access, vec![require(comment, "comment")?], ends).await?;
    Ok(require(shown.into_iter().next(), "comment")?)
}

/// Converts comments on one pull request, with one call for their users and one for their lines.
async fn convert(
    call: &ApiCall,
    access: &ResolvedAccess,
    comments: Vec<issue::ReviewComment>,
    ends: &Ends,
) -> ApiResult<Vec<ReviewComment>> {
    let ids: BTreeSet<_> = comments.iter().flat_map(ReviewComment::account_ids).collect();
    let (accounts, lines) =
        tokio::try_join!(call.accounts_beside_caller(access, ids), followed(call, access, &comments, ends))?;
    let comments = comments.into_iter().zip(lines);
    let comments =
        comments.map(|(comment, line)| ReviewComment::new(comment, line, &ends.head_id, &accounts, &access.urls));
    Ok(comments.collect::<Result<_, _>>()?)
}

/// Returns the last line of each comment on its side of the diff now; `None` if its lines have
/// changed.
async fn followed(
    call: &ApiCall,
    access: &ResolvedAccess,
    comments: &[issue::ReviewComment],
    ends: &Ends,
) -> ApiResult<Vec<Option<i32>>> {
    let is_there = |comment: &issue::ReviewComment| {
        comment.line_commit_id == if comment.is_old_side { &ends.merge_base_id[..] } else { &ends.head_id }
    };
    let moved: Vec<_> = comments.iter().filter(|comment| !is_there(comment)).map(lines_of).collect();
    let mut moved = match moved.is_empty() {
        true => Vec::new().into_iter(),
        false => {
            let git = call.resolve(RepositoryRef::by_id(access.id), operation::FOLLOW_LINES).await?;
            let request = FollowLinesRequest {
                repository_id: git.id,
                head_id: ends.head_id.clone(),
                merge_base_id: ends.merge_base_id.clone(),
                lines: moved,
            };
            let request = with_timeout(call.request_with_grant(&git.grant, request), FOLLOW_TIMEOUT);
            call.clients.lines().follow_lines(request).await.map_err(read_error)?.into_inner().lines.into_iter()
        }
    };
    let place = |comment: &issue::ReviewComment| match is_there(comment) {
        true => Some(comment.line),
        false => moved.next().filter(|line| *line > 0),
    };
    Ok(comments.iter().map(place).collect())
}

fn lines_of(comment: &issue::ReviewComment) -> FollowedLines {
    FollowedLines {
        commit_id: comment.line_commit_id.clone(),
        path: comment.path.clone(),
        is_old_side: comment.is_old_side,
        line: comment.line,
        line_count: comment.line_count,
    }
}
