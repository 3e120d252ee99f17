//! StageHead, SetPullHead and FindMerged: the heads of pull requests.

use std::collections::HashSet;

use ferrite_proto::{
    git::{
        FindMergedRequest, FindMergedResponse, SetPullHeadRequest, SetPullHeadResponse, StageHeadRequest,
        StageHeadResponse,
    },
    id::RepositoryId,
};
use ferrite_rpc::auth::Caller;
use git_store::{
    repo::{
        read::{
            Deadline,
            deadline::READ_TIMEOUT,
            pushed::{added_among, is_reached},
        },
        refs::RefEdit,
    },
    types::{
        error::GitError,
        name::{BranchName, RefName},
    },
};
use git2::{Oid, Repository};
use tonic::Request;

use crate::{
    db::{PullHeadTable, RefTransaction, UpdateKind},
    ref_updates::WriteGuard,
    rpc::{decode, finish},
    rpc_error::{PullEnd, RpcError},
    state::AppState,
    transfer::stage::StagedCommit,
};

/// Largest number of a pull request: what JSON holds exactly.
const MAX_NUMBER: i64 = 1 << 53;
/// Heads in one FindMerged.
const MAX_HEADS: usize = 1000;

pub(super) async fn stage_head(
    state: &AppState,
    request: Request<StageHeadRequest>,
) -> Result<StageHeadResponse, RpcError> {
    Caller::of(&request).require_service()?;
    let request = request.into_inner();
    finish(state, async move |state| stage(&state, request).await).await
}

async fn stage(state: &AppState, request: StageHeadRequest) -> Result<StageHeadResponse, RpcError> {
    let (target, source) = (RepositoryId(request.repository_id), RepositoryId(request.head_repository_id));
    let base = tip(state, target, &request.base_branch).await.map_err(|error| error.at(PullEnd::Base))?;
    let head = tip(state, source, &request.head_branch).await.map_err(|error| error.at(PullEnd::Head))?;
    // Before anything is copied, so that unrelated histories leave nothing behind.
    let merge_base = state.stages.merge_base((target, base), (source, head)).await?;
    let merge_base = merge_base.ok_or(GitError::NoCommonHistory)?;
    if request.requires_commits && merge_base == head {
        return Err(GitError::NothingToMerge.into());
    }
    let left_bytes = request.left_bytes.map(|left| u64::try_from(left).unwrap_or(0));
    state.stages.copy(StagedCommit { source, target, commit: head, left_bytes }).await?;
    let rules = state.protection.rules(target).await?;
    Ok(StageHeadResponse {
        head_id: head.to_string(),
        base_id: base.to_string(),
        merge_base_id: merge_base.to_string(),
        dismisses_approvals: rules.dismiss_approvals(request.base_branch.as_bytes()),
    })
}

/// Returns the commit of a branch. An invalid name yields `BranchNotFound`, like a missing branch.
async fn tip(state: &AppState, id: RepositoryId, name: &str) -> Result<Oid, RpcError> {
    require_own(state, id).await?;
    let name = BranchName::parse(name.as_bytes()).map_err(|_| GitError::BranchNotFound)?;
    Ok(state.refs.resolve(id, name.to_ref()).await?.ok_or(GitError::BranchNotFound)?)
}

/// Fails unless this store has the repository. Wikis have no pull requests.
pub(super) async fn require_own(state: &AppState, id: RepositoryId) -> Result<(), RpcError> {
    let row = state.repositories.find(id).await?.filter(|row| !row.deleted && !row.is_wiki);
    let row = row.ok_or(GitError::RepositoryNotFound)?;
    if row.store == state.store.name() { Ok(()) } else { Err(GitError::WrongStore.into()) }
}

/// A head to set, with checked fields.
struct NewHead {
    repository: RepositoryId,
    number: i64,
    head: Oid,
    sequence: i64,
    /// Where to copy the commit from if it is gone.
    source: Option<RepositoryId>,
}

pub(super) async fn set_pull_head(
    state: &AppState,
    request: Request<SetPullHeadRequest>,
) -> Result<SetPullHeadResponse, RpcError> {
    Caller::of(&request).require_service()?;
    let new = parse(request.get_ref())?;
    require_own(state, new.repository).await?;
    finish(state, async move |state| set(&state, &new).await).await?;
    Ok(SetPullHeadResponse {})
}

fn parse(request: &SetPullHeadRequest) -> Result<NewHead, GitError> {
    if !(1..=MAX_NUMBER).contains(&request.number) {
        return Err(GitError::invalid("number", "invalid", "must be between 1 and 2^53"));
    }
    if request.sequence < 1 {
        return Err(GitError::invalid("sequence", "invalid", "must be at least 1"));
    }
    Ok(NewHead {
        repository: RepositoryId(request.repository_id),
        number: request.number,
        head: decode::object_id("head_id", &request.head_id)?,
        sequence: request.sequence,
        source: (request.head_repository_id > 0).then_some(RepositoryId(request.head_repository_id)),
    })
}

async fn set(state: &AppState, new: &NewHead) -> Result<(), RpcError> {
    let guard = state.updater.lock(new.repository).await?;
    if move_ref(state, &guard, new).await? {
        return Ok(());
    }
    // Pushes need not wait for the copy.
    drop(guard);
    copy_again(state, new).await?;
    let guard = state.updater.lock(new.repository).await?;
    if move_ref(state, &guard, new).await? { Ok(()) } else { Err(GitError::CommitNotFound.into()) }
}

/// Points the ref to the new head, unless a newer one is known. Returns false if the commit is gone.
async fn move_ref(state: &AppState, guard: &WriteGuard, new: &NewHead) -> Result<bool, RpcError> {
    let (id, table) = (new.repository, PullHeadTable::new(state.db.clone()));
    if table.sequence(id, new.number).await? > new.sequence {
        return Ok(true);
    }
    if !state.stages.has_commit(id, new.head).await? {
        return Ok(false);
    }
    // Before the ref: if this process ends in between, the call is repeated, and older ones stay
    // without effect.
    if !table.set(id, new.number, new.sequence, &new.head.to_string()).await? {
        return Ok(true);
    }
    let name = RefName::of_pull_head(new.number.unsigned_abs());
    let old = state.refs.resolve(id, name.clone()).await?;
    if old == Some(new.head) {
        return Ok(true);
    }
    let edits = vec![RefEdit { name, old, new: Some(new.head) }];
    let change = RefTransaction::new(UpdateKind::PullHead, 0, edits);
    // Not awaited: only repo-svc hears of it, for the size.
    drop(state.updater.apply::<()>(guard, &change, None).await?);
    state.updater.wake_relay();
    Ok(true)
}

/// Copies a commit that maintenance removed before its ref was set. A commit that no branch of the
/// source reaches may be private by now, so it is not copied.
async fn copy_again(state: &AppState, new: &NewHead) -> Result<(), RpcError> {
    let source = new.source.filter(|source| *source != new.repository).ok_or(GitError::CommitNotFound)?;
    require_own(state, source).await.map_err(|_| GitError::CommitNotFound)?;
    let (table, commit) = (state.refs.table(source).await?, new.head);
    let (deadline, _waiting) = Deadline::start(READ_TIMEOUT);
    let find = move |repo: &Repository| {
        let tips = table.rows(table.span(b"refs/heads/")).map(|branch| branch.target);
        is_reached(repo, tips, commit, &deadline)
    };
    if !state.pool.run(source, find).await? {
        return Err(GitError::CommitNotFound.into());
    }
    // It was within the quota when it was staged.
    Ok(state.stages.copy(StagedCommit { source, target: new.repository, commit, left_bytes: None }).await?)
}

pub(super) async fn find_merged(
    state: &AppState,
    request: Request<FindMergedRequest>,
) -> Result<FindMergedResponse, RpcError> {
    Caller::of(&request).require_service()?;
    let request = request.into_inner();
    if request.head_ids.len() > MAX_HEADS {
        return Err(GitError::invalid("head_ids", "too_long", "must not be more than 1,000").into());
    }
    let heads = request.head_ids.iter().enumerate();
    let heads = heads.map(|(index, id)| decode::object_id(&format!("head_ids[{index}]"), id));
    let heads: Vec<Oid> = heads.collect::<Result<_, _>>()?;
    let old = Some(decode::object_id("old_id", &request.old_id)?).filter(|id| !id.is_zero());
    let id = RepositoryId(request.repository_id);
    let new = if request.branch.is_empty() {
        let new = decode::object_id("new_id", &request.new_id)?;
        require_own(state, id).await?;
        new
    } else if request.new_id.is_empty() {
        tip(state, id, &request.branch).await?
    } else {
        return Err(GitError::invalid("new_id", "invalid", "must be empty with `branch`").into());
    };
    let wanted: HashSet<Oid> = heads.iter().copied().collect();
    let (deadline, _waiting) = Deadline::start(READ_TIMEOUT);
    let added = state.pool.run(id, move |repo| added_among(repo, old, new, &wanted, &deadline)).await?;
    let found = heads.iter().filter(|head| added.found.contains(head));
    Ok(FindMergedResponse { head_ids: found.map(Oid::to_string).collect(), is_partial: added.is_partial })
}
