use std::time::Duration;

use axum::http::StatusCode;
use ferrite_api_types::PullRequest;
use ferrite_core::text::check_line;
use ferrite_proto::error::reason;
use ferrite_proto::git::{RevertMergeRequest, RevertMergeResponse};
use ferrite_proto::issue::{self, CreatePullRequest};
use ferrite_proto::operation;
use ferrite_proto::repo::RepositoryRef;
use ferrite_rpc::grpc::with_timeout;
use tonic::Status;

use super::changes::find;
use super::heads::head_access;
use super::merges::delete_head;
use super::pulls::{CREATE_TIMEOUT, created, refused};
use crate::api::call::{ApiCall, Authenticated, operations};
use crate::api::git::response::read_error;
use crate::http::body_limits::MAX_TEXT_BODY_BYTES;
use crate::http::error::{ApiError, ApiResult};
use crate::http::path::{Params, RepoPath};
use crate::http::request::{LongText, NonBlank, NonEmpty, RequestBody, Text, fields};
use crate::http::response::Created;

/// Deadline of a revert: git-svc needs up to 30 s, and waits for merges of the same repository.
const REVERT_TIMEOUT: Duration = Duration::from_secs(70);
/// Longest title of a pull request, in characters.
const MAX_TITLE_CHARS: usize = 255;

operations! {
    "/api/v1/repos/{owner}/{repo}/pulls/{index}/revert" => post revert as operation::REVERT_MERGE;
}

fields! {
    /// How to revert a merged pull request.
    #[max_bytes = MAX_TEXT_BODY_BYTES]
    struct RevertOptions {
        /// The title of the new pull request, and the first line of the message. The default quotes the
        /// title of the merged one.
        title: NonBlank<LongText> = "Revert the reading of long lines",
        /// The body of the new pull request. The default names the merged one.
        body: NonBlank<LongText> = "Reverts #7: lines are lost.",
        /// The new branch. The default is `revert-7` for pull request 7, or `revert-7-2` and so on if
        /// that exists.
        branch: NonEmpty<Text<1000>> = "revert-7",
    }
}

/// The pull request to open for the branch of a revert.
struct NewPull {
    repository_id: i64,
    base_branch: String,
    title: String,
    body: String,
}

async fn revert(
    Authenticated(call): Authenticated,
    path: RepoPath,
    params: Params,
    body: RequestBody<RevertOptions>,
) -> ApiResult<Created<PullRequest>> {
    let reading = call.access(&path, operation::GET_PULL).await?;
    let (pull, ends) = find(&call, &reading, params.id("index")).await?;
    let access = call.resolve(RepositoryRef::by_id(reading.id), operation::REVERT_MERGE).await?;
    let (options, _permit) = body.read(&call.body_limits).await?;
    let access = call.confirm(access, operation::REVERT_MERGE).await?;
    let title = match options.title {
        Some(title) => checked_title(&title)?,
        None => default_title(&pull.title),
    };
    let request = RevertMergeRequest {
        repository_id: access.id,
        number: pull.number,
        new_branch: options.branch.unwrap_or_default(),
        base_branch: ends.base_branch.clone(),
        message: format!("{title}\n\nThis reverts #{}.\n", pull.number),
    };
    let request = with_timeout(call.request_with_grant(&access.grant, request), REVERT_TIMEOUT);
    let reverted = call.clients.merges().revert_merge(request).await.map_err(revert_error)?.into_inner();
    let new = NewPull {
        repository_id: access.id,
        base_branch: ends.base_branch,
        title,
        body: options.body.unwrap_or_else(|| format!("Reverts #{}", pull.number)),
    };
    match open(&call, new, &reverted).await {
        Err(refusal) if refusal.status.is_client_error() && !call.has_idempotency_key() => {
            // With a key, the client can repeat the request, which needs the branch. After another
            // error, the pull request may have been opened.
            if let Err(error) = delete_branch(&call, access.id, reverted).await {
                tracing::warn!(?error, repo.id = access.id, "the branch of a revert stays without a pull request");
            }
            Err(refusal)
        }
        opened => opened,
    }
}

/// Opens the pull request. The grants from before the revert may have expired.
async fn open(call: &ApiCall, new: NewPull, reverted: &RevertMergeResponse) -> ApiResult<Created<PullRequest>> {
    let repository = RepositoryRef::by_id(new.repository_id);
    let (access, head) =
        tokio::try_join!(call.resolve(repository, operation::CREATE_PULL), head_access(call, new.repository_id))?;
    let request = CreatePullRequest {
        repository_id: new.repository_id,
        base_branch: new.base_branch,
        head_repository_id: new.repository_id,
        head_branch: reverted.branch.clone(),
        head_grant: head.grant.text(),
        title: new.title,
        body: new.body,
        ..CreatePullRequest::default()
    };
    let request = with_timeout(call.request_with_grant(&access.grant, request), CREATE_TIMEOUT);
    let made = call.clients.pulls().create_pull(request).await;
    let made = made.map_err(|status| refused(status, "branch"))?.into_inner().pull;
    created(call, access, made).await
}

/// Deletes the branch of a revert, unless somebody has pushed to it.
async fn delete_branch(call: &ApiCall, repository_id: i64, reverted: RevertMergeResponse) -> ApiResult<()> {
    let ends = issue::PullRequest {
        head_repository_id: repository_id,
        head_branch: reverted.branch,
        head_id: reverted.commit_id,
        ..issue::PullRequest::default()
    };
    delete_head(call, &ends).await
}

/// Checks a title as issue-svc does, before the branch is made.
fn checked_title(title: &str) -> ApiResult<String> {
    let title: String = title.trim().chars().map(|char| if char.is_whitespace() { ' ' } else { char }).collect();
    check_line(&title, "title").map_err(|wrong| ApiError::invalid_field("title", "invalid", wrong.message))?;
    if title.chars().count() > MAX_TITLE_CHARS {
        let message = format!("must have at most {MAX_TITLE_CHARS} characters");
        return Err(ApiError::invalid_field("title", "too_long", message));
    }
    Ok(title)
}

/// Quotes the title of the merged pull request, which is cut if it is long.
fn default_title(merged: &str) -> String {
    let room = MAX_TITLE_CHARS - "Revert \"\"".len();
    format!("Revert \"{}\"", merged.chars().take(room).collect::<String>())
}

/// Converts a status of git-svc. Commits that do not fit together are a 409.
fn revert_error(status: Status) -> ApiError {
    if reason(&status).as_deref() == Some("NOTHING_TO_MERGE") {
        let message = "the base branch has nothing of this merge left";
        return ApiError::new(StatusCode::CONFLICT, message).because("NOTHING_TO_MERGE");
    }
    read_error(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_fit_into_one_line() {
        assert_eq!(default_title("Read \"long\" lines"), "Revert \"Read \"long\" lines\"");
        let long = default_title(&"ä".repeat(255));
        assert!(long.chars().count() == 255 && long.ends_with("ä\""), "{long}");
        assert_eq!(checked_title(" a\nb\t ").unwrap(), "a b");
        let status = |title: &str| checked_title(title).unwrap_err().status.as_u16();
        assert_eq!((status(&"ä".repeat(256)), status("a\u{7}b")), (422, 422));
        assert!(checked_title(&"ä".repeat(255)).is_ok());
    }
}
