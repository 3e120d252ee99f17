//! RevertMerge: undoes the merge of a pull request on a new branch.

use ferrite_db::idempotency::{IdempotencyError, Stored};
use ferrite_proto::{
    git::{Merge, RevertMergeRequest, RevertMergeResponse},
    id::RepositoryId,
};
use ferrite_rpc::auth::Caller;
use git_store::{
    repo::{
        merge::{MergeDraft, Merger, Reverted},
        refs::RefEdit,
    },
    types::{error::GitError, name::BranchName},
};
use tonic::Request;

use super::ready;
use crate::{
    admission::limiter::ClientKey,
    db::{MergeTable, RefTransaction, UpdateKind},
    ref_updates::protection::check_commit,
    rpc::{
        decode,
        ref_writes::{RefWrite, author},
    },
    rpc_error::RpcError,
    state::AppState,
};

/// Names of which one is chosen for the branch.
const MAX_NAMES: usize = 100;

/// What to revert, and where.
struct Revert {
    client: ClientKey,
    number: i64,
    base: BranchName,
    /// `None` to choose a name.
    branch: Option<BranchName>,
    message: String,
}

pub(super) async fn revert_merge(
    state: &AppState,
    request: Request<RevertMergeRequest>,
) -> Result<RevertMergeResponse, RpcError> {
    let caller = Caller::of(&request);
    let write = RefWrite::begin(state, &request, request.get_ref().repository_id, "RevertMerge").await?;
    let client = ClientKey::of(&caller, &write.access.grant, request.metadata().as_ref());
    let request = request.into_inner();
    let revert = Revert {
        client,
        number: request.number,
        base: BranchName::parse(request.base_branch.as_bytes()).map_err(|_| GitError::BranchNotFound)?,
        branch: match request.new_branch.as_str() {
            "" => None,
            name => Some(decode::new_name("branch", name)?),
        },
        message: request.message,
    };
    write.run(state, async move |state, write| run(&state, &write, revert).await).await
}

/// Runs while no merge of the repository does. Pushes do not wait: the branch begins at a commit that
/// the base had.
async fn run(state: &AppState, write: &RefWrite, revert: Revert) -> Result<RevertMergeResponse, RpcError> {
    let id = write.repository;
    let _turn = state.merges.turn(id).await?;
    // Settles what a crash left open: a stored response and a row are of what was made.
    drop(state.updater.lock(id).await?);
    match write.stored::<RevertMergeResponse>(state).await? {
        Some(Stored::Response(response)) => return Ok(response),
        Some(Stored::Subject(_)) => return Err(IdempotencyError::NotKept.into()),
        None => {}
    }
    let merge = MergeTable::new(state.db.clone()).find(id, revert.number).await?.ok_or(RpcError::MergeNotFound)?;
    let tip = state.refs.resolve(id, revert.base.to_ref()).await?.ok_or(GitError::BranchNotFound)?;
    let branch = match revert.branch {
        Some(branch) => branch,
        None => free_name(state, id, revert.number).await?,
    };
    let edit = RefEdit { name: branch.to_ref(), old: None, new: Some(tip) };
    // Before the revert, so that a refused one costs little.
    check(state, write, &edit).await?;
    let permit = state.limiters.merge.acquire(id, &revert.client).await?;
    let seconds = i64::try_from(state.clock.now_secs()).unwrap_or(i64::MAX);
    let author = author(&write.access.grant, seconds);
    let draft = MergeDraft { message: revert.message, author: author.clone(), committer: author };
    let outcome = Merger::new(&state.git, &state.pool, id).revert(tip, reverted(&merge)?, &draft).await?;
    drop(permit);
    let prepared = ready(outcome, &write.access)?;

    let guard = state.updater.lock(id).await?;
    let edit = RefEdit { new: Some(prepared.commit), ..edit };
    // Both may have changed before the lock.
    check(state, write, &edit).await?;
    let change = RefTransaction {
        objects: prepared.objects,
        issue_reach: write.actor.issue_reach,
        ..RefTransaction::new(UpdateKind::Api, write.actor.user, vec![edit])
    };
    let short = String::from_utf8_lossy(branch.as_bytes()).into_owned();
    let response = RevertMergeResponse { commit_id: prepared.commit.to_string(), branch: short };
    match write.apply(state, guard, &change, (branch.as_bytes(), "branch"), None, &response).await {
        Ok(()) => Ok(response),
        Err(RpcError::Git(GitError::RefConflict { .. })) => Err(GitError::BranchExists.into()),
        Err(failure) => Err(failure),
    }
}

/// Returns `revert-NUMBER`, or the first of `revert-NUMBER-2` and so on that is free.
async fn free_name(state: &AppState, id: RepositoryId, number: i64) -> Result<BranchName, RpcError> {
    let name = |count: usize| match count {
        1 => format!("revert-{number}"),
        count => format!("revert-{number}-{count}"),
    };
    let names = (1..=MAX_NAMES).map(|count| BranchName::parse(name(count).as_bytes()));
    let names: Vec<_> = names.collect::<Result<_, _>>().map_err(|error| error.of("number"))?;
    let tips = state.refs.resolve_all(id, names.iter().map(BranchName::to_ref).collect()).await?;
    let free = names.into_iter().zip(tips).find(|(_, tip)| tip.is_none());
    Ok(free.ok_or(GitError::BranchExists)?.0)
}

/// Checks that the branch does not exist and may be created.
async fn check(state: &AppState, write: &RefWrite, edit: &RefEdit) -> Result<(), RpcError> {
    if state.refs.resolve(write.repository, edit.name.clone()).await?.is_some() {
        return Err(GitError::BranchExists.into());
    }
    let rules = state.protection.rules(write.repository).await?;
    match check_commit(&rules, &write.actor, edit) {
        Some(denial) => Err(GitError::BranchProtected { denial }.into()),
        None => Ok(()),
    }
}

fn reverted(merge: &Merge) -> Result<Reverted, GitError> {
    let before = decode::object_id("base_id", &merge.base_id)?;
    let after = decode::object_id("merge_commit_id", &merge.merge_commit_id)?;
    Ok(Reverted { before: Some(before), after })
}
