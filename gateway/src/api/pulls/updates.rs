//! Updates of the heads of pull requests from their bases.

use axum::http::StatusCode;
use ferrite_proto::error::reason;
use ferrite_proto::git::UpdatePullHeadRequest;
use ferrite_proto::issue::{IssueState, PullRequest};
use ferrite_proto::operation;
use ferrite_proto::repo::RepositoryRef;
use ferrite_rpc::grpc::with_timeout;

use super::MERGE_TIMEOUT;
use super::changes::find;
use crate::api::access::ResolvedAccess;
use crate::api::call::{ApiCall, Authenticated, operations};
use crate::api::git::response::read_error;
use crate::http::body::NoBody;
use crate::http::error::{ApiError, ApiResult};
use crate::http::filters::{QueryOf, filters};
use crate::http::path::{Params, RepoPath};
use crate::http::request::Word;
use crate::http::response::Done;
use crate::http::words::words;

/// When the pull request has followed its branch.
const HEAD_RETRY_SECONDS: u64 = 1;

operations! {
    "/api/v1/repos/{owner}/{repo}/pulls/{index}/update" => post update as operation::UPDATE_PULL_HEAD;
}

words! {
    /// Whether the head is rebased.
    enum UpdateStyle: bool { "merge" = false, "rebase" = true }
}

filters! {
    /// How to update a head.
    struct UpdateFilters {
        /// `merge`, which is the default, or `rebase`.
        by_rebase as "style": Word<UpdateStyle> = "rebase",
    }
}

async fn update(
    Authenticated(call): Authenticated,
    path: RepoPath,
    params: Params,
    filters: QueryOf<UpdateFilters>,
    body: NoBody,
) -> ApiResult<Done> {
    let access = call.access(&path, operation::GET_PULL).await?;
    let (pull, ends) = find(&call, &access, params.id("index")).await?;
    let head = head_access(&call, &ends).await?;
    body.read()?;
    let by_rebase = filters.read()?.by_rebase.unwrap_or(false);
    let refuse = |message, reason| Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, message).because(reason));
    if ends.is_merged {
        return refuse("pull request is merged", "ALREADY_MERGED");
    }
    if pull.state() != IssueState::Open {
        return refuse("pull request is closed", "PULL_CLOSED");
    }
    let Some(head) = head else {
        return refuse("the head branch was deleted", "HEAD_DELETED");
    };
    if by_rebase && !access.pulls.allow_rebase_update {
        return Err(ApiError::invalid_field("style", "invalid", "the settings of the repository allow only `merge`"));
    }
    let base_grant = if head.id == access.id {
        String::new()
    } else {
        call.resolve(RepositoryRef::by_id(access.id), operation::GET_BRANCH).await?.grant.text()
    };
    let request = UpdatePullHeadRequest {
        repository_id: head.id,
        head_branch: ends.head_branch,
        head_id: ends.head_id,
        base_repository_id: access.id,
        base_branch: ends.base_branch,
        by_rebase,
        base_grant,
    };
    let request = with_timeout(call.request_with_grant(&head.grant, request), MERGE_TIMEOUT);
    match call.clients.merges().update_pull_head(request).await {
        Ok(_) => Ok(Done),
        // The head has all commits of the base.
        Err(status) if reason(&status).as_deref() == Some("NOTHING_TO_MERGE") => Ok(Done),
        // The caller named no head: the pull request follows a push after a moment.
        Err(status) if reason(&status).as_deref() == Some("HEAD_MOVED") => {
            Err(read_error(status).retried_after(HEAD_RETRY_SECONDS))
        }
        Err(status) => Err(read_error(status)),
    }
}

/// Returns the access to change the head; `None` if the branch was deleted. The response is the same
/// for a caller who cannot see the repository of the head and for one who cannot push to it.
async fn head_access(call: &ApiCall, ends: &PullRequest) -> ApiResult<Option<ResolvedAccess>> {
    if ends.head_repository_id == 0 || ends.is_head_deleted {
        return Ok(None);
    }
    let head = call.resolve(RepositoryRef::by_id(ends.head_repository_id), operation::UPDATE_PULL_HEAD).await;
    head.map(Some).map_err(|error| match (error.status, error.reason()) {
        (StatusCode::NOT_FOUND, _) | (StatusCode::FORBIDDEN, Some("PERMISSION_REQUIRED")) => {
            ApiError::new(StatusCode::FORBIDDEN, "you are not allowed to push to the head branch")
                .because("HEAD_FORBIDDEN")
        }
        _ => error,
    })
}
