//! The RPCs of pull requests (`MergeService`).

mod merge;
mod revert;
mod update;

use ferrite_listener::service;
use ferrite_proto::{
    git::{
        DescribePullsRequest, DescribePullsResponse, FindMergedRequest, FindMergedResponse, GetConflictsRequest,
        GetConflictsResponse, GetMergeRequirementsRequest, GetMergeRequirementsResponse, ListMergesRequest,
        ListMergesResponse, MergePullRequest, MergePullResponse, RevertMergeRequest, RevertMergeResponse,
        SetPullHeadRequest, SetPullHeadResponse, StageHeadRequest, StageHeadResponse, UpdatePullHeadRequest,
        UpdatePullHeadResponse, merge_service_server::MergeService,
    },
    id::RepositoryId,
};
use ferrite_rpc::auth::Caller;
use git_store::{
    repo::merge::{Conflicts, MergeOutcome, PreparedMerge},
    types::{
        error::{GitError, quota_exceeded},
        protection::Actor,
    },
};
use tonic::Request;

use self::{merge::merge_pull, revert::revert_merge, update::update_pull_head};
use super::{
    heads::{find_merged, set_pull_head, stage_head},
    pulls::{describe_pulls, get_conflicts, get_merge_requirements},
    ref_writes::WriteAccess,
};
use crate::{db::MergeTable, rpc_error::RpcError, state::AppState};

/// Numbers in one ListMerges.
const MAX_NUMBERS: usize = 100;
/// Conflicting files that an error names.
const MAX_NAMED_FILES: usize = 10;

service!(MergeService for AppState {
    describe_pulls(DescribePullsRequest) -> DescribePullsResponse;
    get_conflicts(GetConflictsRequest) -> GetConflictsResponse;
    get_merge_requirements(GetMergeRequirementsRequest) -> GetMergeRequirementsResponse;
    merge_pull(MergePullRequest) -> MergePullResponse;
    revert_merge(RevertMergeRequest) -> RevertMergeResponse;
    update_pull_head(UpdatePullHeadRequest) -> UpdatePullHeadResponse;
    stage_head(StageHeadRequest) -> StageHeadResponse;
    set_pull_head(SetPullHeadRequest) -> SetPullHeadResponse;
    find_merged(FindMergedRequest) -> FindMergedResponse;
    list_merges(ListMergesRequest) -> ListMergesResponse;
});

async fn list_merges(state: &AppState, request: Request<ListMergesRequest>) -> Result<ListMergesResponse, RpcError> {
    Caller::of(&request).require_service()?;
    let ListMergesRequest { repository_id, numbers } = request.into_inner();
    if numbers.len() > MAX_NUMBERS {
        return Err(GitError::invalid("numbers", "too_long", "must not be more than 100").into());
    }
    let id = RepositoryId(repository_id);
    // Settles what a crash left open, so that every row is a merge that was made.
    drop(state.updater.lock(id).await?);
    if state.repositories.find(id).await?.is_none_or(|row| row.deleted) {
        return Err(GitError::RepositoryNotFound.into());
    }
    Ok(ListMergesResponse { merges: MergeTable::new(state.db.clone()).list(id, &numbers).await? })
}

/// Returns the new commits of a merge that fit into the owner's quota, or the error for conflicts.
fn ready(outcome: MergeOutcome, access: &WriteAccess) -> Result<PreparedMerge, RpcError> {
    let prepared = match outcome {
        MergeOutcome::Ready(prepared) => prepared,
        MergeOutcome::Conflicts(conflicts) => return Err(RpcError::MergeConflict(named_files(&conflicts))),
    };
    let bytes: usize = prepared.objects.iter().map(|object| object.content().len()).sum();
    match access.grant.limits.bytes {
        Some(quota) if bytes as u64 >= quota.left() => Err(quota_exceeded(quota).into()),
        _ => Ok(prepared),
    }
}

fn named_files(conflicts: &Conflicts) -> String {
    let named = conflicts.files.iter().take(MAX_NAMED_FILES);
    let named: Vec<_> = named.map(|file| format!("`{}`", String::from_utf8_lossy(&file.path))).collect();
    match conflicts.total.saturating_sub(named.len()) {
        0 => named.join(", "),
        rest => format!("{} and {rest} more", named.join(", ")),
    }
}

/// The user of a write that needs one: a deploy key merges nothing.
fn user_of(actor: &Actor) -> Result<i64, RpcError> {
    if actor.user == 0 { Err(RpcError::BadPermit) } else { Ok(actor.user) }
}
