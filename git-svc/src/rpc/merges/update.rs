//! UpdatePullHead: brings the base of a pull request into its head branch.

use ferrite_db::idempotency::{IdempotencyError, Stored};
use ferrite_proto::{
    git::{UpdatePullHeadRequest, UpdatePullHeadResponse},
    id::RepositoryId,
    operation,
};
use ferrite_rpc::auth::Caller;
use git_store::{
    repo::{
        merge::{MergeDraft, MergeStyle, Merger},
        refs::RefEdit,
    },
    types::{
        error::{Denial, GitError},
        name::BranchName,
    },
};
use git2::Oid;
use tonic::Request;

use super::ready;
use crate::{
    admission::limiter::ClientKey,
    db::{RefTransaction, UpdateKind},
    rpc::{
        decode,
        ref_writes::{RefWrite, author},
    },
    rpc_error::RpcError,
    state::AppState,
    transfer::stage::StagedCommit,
};

/// What to bring into which branch.
struct Update {
    client: ClientKey,
    head: BranchName,
    head_id: Oid,
    base_repository: RepositoryId,
    base: BranchName,
    by_rebase: bool,
}

pub(super) async fn update_pull_head(
    state: &AppState,
    request: Request<UpdatePullHeadRequest>,
) -> Result<UpdatePullHeadResponse, RpcError> {
    let caller = Caller::of(&request);
    let write = RefWrite::begin(state, &request, request.get_ref().repository_id, "UpdatePullHead").await?;
    let client = ClientKey::of(&caller, &write.access.grant, request.metadata().as_ref());
    let request = request.into_inner();
    let base_repository = RepositoryId(request.base_repository_id);
    if base_repository != write.repository {
        check_base_grant(state, &write, &request.base_grant, base_repository)?;
    }
    let update = Update {
        client,
        head: BranchName::parse(request.head_branch.as_bytes()).map_err(|_| GitError::BranchNotFound)?,
        head_id: decode::object_id("head_id", &request.head_id)?,
        base_repository,
        base: BranchName::parse(request.base_branch.as_bytes()).map_err(|_| GitError::BranchNotFound)?,
        by_rebase: request.by_rebase,
    };
    write.run(state, async move |state, write| run(&state, &write, update).await).await
}

/// Checks that the caller may read the branches of the base.
fn check_base_grant(state: &AppState, write: &RefWrite, grant: &str, base: RepositoryId) -> Result<(), RpcError> {
    let found = state.verifier.verify(grant).map_err(|_| RpcError::BadPermit)?.0;
    let is_callers = found.user_id().is_some() && found.user == write.access.grant.user;
    let is_fitting = found.repository == base.0 && found.operation == operation::GET_BRANCH;
    if is_callers && is_fitting { Ok(()) } else { Err(RpcError::BadPermit) }
}

/// Runs while no merge into the head's repository does. Pushes do not wait; one to the head makes it
/// fail.
async fn run(state: &AppState, write: &RefWrite, update: Update) -> Result<UpdatePullHeadResponse, RpcError> {
    let id = write.repository;
    let _turn = state.merges.turn(id).await?;
    // Settles what a crash left open: a stored response is of an update that was made.
    drop(state.updater.lock(id).await?);
    match write.stored::<UpdatePullHeadResponse>(state).await? {
        Some(Stored::Response(response)) => return Ok(response),
        Some(Stored::Subject(_)) => return Err(IdempotencyError::NotKept.into()),
        None => {}
    }
    let tip = state.refs.resolve(update.base_repository, update.base.to_ref()).await?;
    let tip = tip.ok_or(GitError::BranchNotFound)?;
    if update.base_repository != id {
        let left = write.access.grant.limits.bytes.map(ferrite_proto::grant::ByteQuota::left);
        let source = update.base_repository;
        state.stages.copy(StagedCommit { source, target: id, commit: tip, left_bytes: left }).await?;
    }
    let find_head = || state.refs.resolve(id, update.head.to_ref());
    if find_head().await?.ok_or(GitError::BranchNotFound)? != update.head_id {
        return Err(RpcError::HeadMoved);
    }
    if !state.protection.is_behind(id, tip, update.head_id).await? {
        return Err(GitError::NothingToMerge.into());
    }
    let permit = state.limiters.merge.acquire(id, &update.client).await?;
    let merger = Merger::new(&state.git, &state.pool, id);
    let seconds = i64::try_from(state.clock.now_secs()).unwrap_or(i64::MAX);
    let committer = author(&write.access.grant, seconds);
    let outcome = if update.by_rebase {
        merger.prepare(tip, update.head_id, &MergeStyle::Rebase(committer)).await?
    } else {
        let [base, head] =
            [&update.base, &update.head].map(|name| String::from_utf8_lossy(name.as_bytes()).into_owned());
        let message = format!("Merge branch '{base}' into {head}");
        let draft = MergeDraft { message, author: committer.clone(), committer };
        merger.prepare(update.head_id, tip, &MergeStyle::Merge(draft)).await?
    };
    drop(permit);
    let prepared = ready(outcome, &write.access)?;

    let guard = state.updater.lock(id).await?;
    if find_head().await? != Some(update.head_id) {
        return Err(RpcError::HeadMoved);
    }
    check_rules(state, write, &update).await?;
    let head_id = prepared.commit.to_string();
    let edit = RefEdit { name: update.head.to_ref(), old: Some(update.head_id), new: Some(prepared.commit) };
    let change = RefTransaction {
        objects: prepared.objects,
        issue_reach: write.actor.issue_reach,
        ..RefTransaction::new(UpdateKind::Api, write.actor.user, vec![edit])
    };
    let response = UpdatePullHeadResponse { head_id };
    let applied = write.apply(state, guard, &change, (update.head.as_bytes(), "head_branch"), None, &response).await;
    match applied {
        Ok(()) => Ok(response),
        Err(RpcError::Git(GitError::RefConflict { .. })) => Err(RpcError::HeadMoved),
        Err(failure) => Err(failure),
    }
}

/// Checks the rules of the head branch. The new commits have no statuses, and a rebase removes those
/// that the branch had.
async fn check_rules(state: &AppState, write: &RefWrite, update: &Update) -> Result<(), RpcError> {
    let rules = state.protection.rules(write.repository).await?;
    let Some(rule) = rules.effective(update.head.as_bytes(), &write.actor) else { return Ok(()) };
    let forced = || (update.by_rebase && !rule.allow_force).then_some(Denial::Force);
    match rule.deny(false).or_else(forced).or_else(|| rule.deny_checks(&[])) {
        Some(denial) => Err(GitError::BranchProtected { denial }.into()),
        None => Ok(()),
    }
}
