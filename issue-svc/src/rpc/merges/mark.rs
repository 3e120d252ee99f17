//! MarkMerged.

use ferrite_db::idempotency::{IdempotencyKey, once_or_rebuild};
use ferrite_proto::error::FieldViolation;
use ferrite_proto::git::FindMergedRequest;
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::{MarkMergedRequest, MarkMergedResponse};
use tonic::Request;

use super::permit::wait_for_head;
use crate::encode;
use crate::error::IssueError;
use crate::model::{Merged, check_commit_id};
use crate::pulls::Update;
use crate::rpc::user;
use crate::state::AppState;
use crate::writer::require_open;

/// The commit of a branch before it existed.
const NO_COMMIT: &str = "0000000000000000000000000000000000000000";

pub(in crate::rpc) async fn mark_merged(
    state: &AppState,
    request: Request<MarkMergedRequest>,
) -> Result<MarkMergedResponse, IssueError> {
    let grant = state.authorize_pulls(&request, request.get_ref().repository_id).await?;
    let user = user(&grant)?;
    let key = IdempotencyKey::of(&request, user.0, "MarkMerged")?;
    let request = request.into_inner();
    let (repository, number) = (RepositoryId(request.repository_id), request.number);
    let mark = async {
        check(&request)?;
        wait_for_head(state, repository, number).await?;
        // In the order of other merges: see `MergeRules`. Drafts may be merged by hand.
        let full = state.full_pull(repository, number).await?;
        let pull = full.pull_request.ok_or(IssueError::PullNotFound)?;
        require_open(&full.issue, &pull)?;
        let described = state.pulls.describe(repository).await?;
        if !described.pulls.is_some_and(|pulls| pulls.allow_manual_merge) {
            return Err(IssueError::StyleNotAllowed);
        }
        if !request.head_id.is_empty() && !pull.head_id.eq_ignore_ascii_case(&request.head_id) {
            return Err(IssueError::HeadMoved);
        }
        let merged = Merged {
            number,
            head_id: pull.head_id,
            base_branch: pull.base_branch,
            // The base had this commit before, and nothing tells a later one.
            base_id: pull.merge_base_id,
            commit_id: request.commit_id.to_ascii_lowercase(),
            user,
            reaches_issues: true,
        };
        require_in_base(state, &described.store, repository, &merged).await?;
        // The walk over the history of the base can take long.
        if let Some(access) = grant.reauthorization() {
            state.authorizer.reauthorize(access).await?;
        }
        let mut write = state.writer.begin_pull(repository).await?;
        let full = write.mark_merged(&merged).await?;
        let closes = Update::Closes { number, commit_id: merged.commit_id };
        let now_us = write.now_us();
        state.pulls.queue.record(write.tx(), repository, &closes, user, now_us).await?;
        let is_head_shared = write.is_head_shared(full.issue.id).await?;
        let response = MarkMergedResponse { pull: Some(encode::issue(full)), is_head_shared };
        let response = write.commit_with_subject(key.as_ref(), response, number).await?;
        state.pulls.queue.wake();
        Ok(response)
    };
    let rebuild = |number: i64| async move {
        let full = state.full_pull(repository, number).await?;
        let is_head_shared = state.store.is_head_shared(state.store.reader(), full.issue.id).await?;
        Ok(MarkMergedResponse { pull: Some(encode::issue(full)), is_head_shared })
    };
    once_or_rebuild(state.store.db(), key.as_ref(), rebuild, mark).await
}

fn check(request: &MarkMergedRequest) -> Result<(), IssueError> {
    let commit_id = match request.commit_id.as_str() {
        "" => Err(FieldViolation::new("MergeCommitID", "required", "must name the commit that merged it")),
        id => check_commit_id("MergeCommitID", id),
    };
    let head_id = match request.head_id.as_str() {
        "" => Ok(()),
        id => check_commit_id("head_commit_id", id),
    };
    match (commit_id, head_id) {
        (Ok(()), Ok(())) => Ok(()),
        (commit_id, head_id) => Err(IssueError::invalid([commit_id.err(), head_id.err()])),
    }
}

/// Fails unless the base branch contains the merge commit.
async fn require_in_base(
    state: &AppState,
    store: &str,
    repository: RepositoryId,
    merged: &Merged,
) -> Result<(), IssueError> {
    let request = FindMergedRequest {
        repository_id: repository.0,
        old_id: NO_COMMIT.to_owned(),
        new_id: String::new(),
        head_ids: vec![merged.commit_id.clone()],
        branch: merged.base_branch.clone(),
    };
    let found = state.pulls.git.find_merged(store, request).await.map_err(|error| match error {
        IssueError::BranchNotFound { .. } => IssueError::BranchNotFound { end: "base" },
        other => other,
    })?;
    if found.is_empty() {
        let message = "the base branch does not contain this commit";
        return Err(FieldViolation::new("MergeCommitID", "not_in_base", message).into());
    }
    Ok(())
}
