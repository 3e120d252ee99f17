use ferrite_db::{DbError, idempotency::Stored};
use ferrite_proto::{
    Permission,
    git::{
        Branch, CreateBranchRequest, CreateBranchResponse, DeleteBranchRequest, DeleteBranchResponse, GetBranchRequest,
        GetBranchResponse, ListBranchesRequest, ListBranchesResponse, RenameBranchRequest, RenameBranchResponse,
        SetDefaultBranchRequest, SetDefaultBranchResponse,
    },
    id::RepositoryId,
};
use ferrite_rpc::{
    auth::{AuthError, Caller},
    version,
};
use git_store::{
    repo::{
        read::{self, BranchInfo},
        refs::{RefEdit, head, lookup},
        revision::Revision,
    },
    types::{
        error::GitError,
        name::BranchName,
        protection::{Pattern, Rules},
    },
};
use git2::{Oid, Repository};
use tonic::Request;

use super::{authorize, decode, encode, finish, ref_writes::RefWrite};
use crate::{
    db::{RefTransaction, RenamedBranchTable, UpdateKind},
    ref_updates::AuditContext,
    rpc_error::RpcError,
    state::AppState,
};

pub(super) async fn list_branches(
    state: &AppState,
    request: Request<ListBranchesRequest>,
) -> Result<ListBranchesResponse, RpcError> {
    let (request, id) = authorize(state, request, |request| request.repository_id).await?;
    let page = decode::parse_page(request.page, request.page_size)?;
    let listed = state.refs.list(id, "refs/heads/", page).await?;
    let branches = state.pool.run(id, move |repo| read::branches(repo, &listed.entries)).await?;
    let rules = state.protection.rules(id).await?;
    Ok(ListBranchesResponse {
        branches: branches.into_iter().map(|branch| encode::branch(branch, &rules)).collect(),
        total_count: encode::total_count(listed.total),
    })
}

/// Returns one branch. An invalid name yields `BranchNotFound`, like a missing branch, and a former
/// name `BranchRenamed`.
pub(super) async fn get_branch(
    state: &AppState,
    request: Request<GetBranchRequest>,
) -> Result<GetBranchResponse, RpcError> {
    let (request, id) = authorize(state, request, |request| request.repository_id).await?;
    let name = BranchName::parse(&request.name).map_err(|_| GitError::BranchNotFound)?;
    let branch = match shown(state, id, name.clone(), &state.protection.rules(id).await?).await {
        Err(RpcError::Git(GitError::BranchNotFound)) => return Err(missing(state, id, &name).await?),
        found => found?,
    };
    version::tell(&branch);
    Ok(GetBranchResponse { branch: Some(branch) })
}

/// Returns the error for a missing branch. It has the present name of a renamed one.
async fn missing(state: &AppState, id: RepositoryId, name: &BranchName) -> Result<RpcError, RpcError> {
    let Some(new) = RenamedBranchTable::new(state.db.clone()).find(id, name).await? else {
        return Ok(GitError::BranchNotFound.into());
    };
    let is_present = state.refs.resolve(id, new.to_ref()).await?.is_some();
    Ok(if is_present { RpcError::BranchRenamed(new) } else { GitError::BranchNotFound.into() })
}

async fn shown(state: &AppState, id: RepositoryId, name: BranchName, rules: &Rules) -> Result<Branch, RpcError> {
    let found = state.pool.run(id, move |repo| read::branch(repo, &name)).await?;
    Ok(encode::branch(found, rules))
}

/// Checks the precondition of the request on a branch. The caller must hold the repository's write
/// lock.
async fn require_version(state: &AppState, id: RepositoryId, name: &BranchName, rules: &Rules) -> Result<(), RpcError> {
    if !version::is_conditional() {
        return Ok(());
    }
    let branch = shown(state, id, name.clone(), rules).await?;
    Ok(version::require(Some(&branch)).map_err(DbError::from)?)
}

pub(super) async fn create_branch(
    state: &AppState,
    request: Request<CreateBranchRequest>,
) -> Result<CreateBranchResponse, RpcError> {
    let write = RefWrite::begin(state, &request, request.get_ref().repository_id, "CreateBranch").await?;
    let request = request.into_inner();
    let name = decode::new_name("new_branch_name", &request.name)?;
    let start = Revision::parse(&request.revision)?;
    write.run(state, async move |state, write| create(&state, &write, name, start).await).await
}

async fn create(
    state: &AppState,
    write: &RefWrite,
    name: BranchName,
    start: Revision,
) -> Result<CreateBranchResponse, RpcError> {
    let id = write.repository;
    let guard = state.updater.lock(id).await?;
    let rules = state.protection.rules(id).await?;
    match write.stored::<CreateBranchResponse>(state).await? {
        Some(Stored::Response(response)) => return Ok(response),
        Some(Stored::Subject(_)) => {
            return Ok(CreateBranchResponse { branch: Some(shown(state, id, name, &rules).await?) });
        }
        None => {}
    }
    let full = name.to_ref();
    let job = move |repo: &Repository| match lookup(repo, &full)? {
        Some(_) => Err(GitError::BranchExists),
        None => read::commit(repo, &start),
    };
    let commit = state.pool.run(id, job).await?;
    let edits = vec![RefEdit { name: name.to_ref(), old: None, new: Some(commit.id) }];
    write.check(state, &edits).await?;
    let change = RefTransaction::new(UpdateKind::Api, write.actor.user, edits);
    let short = name.as_bytes();
    let branch = encode::branch(BranchInfo { name: short.to_vec(), commit }, &rules);
    let response = CreateBranchResponse { branch: Some(branch) };
    write.apply(state, guard, &change, (short, "new_branch_name"), None, &response).await?;
    Ok(response)
}

/// Deletes a branch. An invalid name yields `BranchNotFound`, like a missing branch.
pub(super) async fn delete_branch(
    state: &AppState,
    request: Request<DeleteBranchRequest>,
) -> Result<DeleteBranchResponse, RpcError> {
    let write = RefWrite::begin(state, &request, request.get_ref().repository_id, "DeleteBranch").await?;
    let request = request.into_inner();
    let name = BranchName::parse(&request.name).map_err(|_| GitError::BranchNotFound)?;
    let commit = match request.commit_id.as_str() {
        "" => None,
        id => Some(decode::object_id("commit_id", id)?),
    };
    write.run(state, async move |state, write| delete(&state, &write, name, commit).await).await
}

async fn delete(
    state: &AppState,
    write: &RefWrite,
    name: BranchName,
    commit: Option<Oid>,
) -> Result<DeleteBranchResponse, RpcError> {
    let id = write.repository;
    let guard = state.updater.lock(id).await?;
    if write.stored::<DeleteBranchResponse>(state).await?.is_some() {
        return Ok(DeleteBranchResponse {});
    }
    let full = name.to_ref();
    let found = state.pool.run(id, move |repo| Ok((head(repo)?, lookup(repo, &full)?)));
    let (head, tip) = found.await?;
    let tip = tip.ok_or(GitError::BranchNotFound)?;
    if commit.is_some_and(|commit| commit != tip) {
        return Err(GitError::RefConflict { name: name.to_ref().to_string() }.into());
    }
    if head.branch == name {
        return Err(GitError::DefaultBranch.into());
    }
    let edits = vec![RefEdit { name: name.to_ref(), old: Some(tip), new: None }];
    write.check(state, &edits).await?;
    let rules = state.protection.rules(id).await?;
    require_version(state, id, &name, &rules).await?;
    let change = RefTransaction::new(UpdateKind::Api, write.actor.user, edits);
    let response = DeleteBranchResponse {};
    write.apply(state, guard, &change, (name.as_bytes(), "name"), None, &response).await?;
    Ok(response)
}

/// Renames a branch. An invalid old name yields `BranchNotFound`, like a missing branch.
pub(super) async fn rename_branch(
    state: &AppState,
    request: Request<RenameBranchRequest>,
) -> Result<RenameBranchResponse, RpcError> {
    let write = RefWrite::begin(state, &request, request.get_ref().repository_id, "RenameBranch").await?;
    let by = AuditContext::of(&Caller::of(&request), &write.access.grant, request.metadata());
    let request = request.into_inner();
    let new = decode::new_name("name", &request.new_name)?;
    let old = BranchName::parse(&request.name).map_err(|_| GitError::BranchNotFound)?;
    write.run(state, async move |state, write| rename(&state, &write, old, new, by).await).await
}

async fn rename(
    state: &AppState,
    write: &RefWrite,
    old: BranchName,
    new: BranchName,
    by: AuditContext,
) -> Result<RenameBranchResponse, RpcError> {
    let id = write.repository;
    let guard = state.updater.lock(id).await?;
    if write.stored::<RenameBranchResponse>(state).await?.is_some() {
        return Ok(RenameBranchResponse {});
    }
    let names = [old.to_ref(), new.to_ref()];
    let job = move |repo: &Repository| Ok((head(repo)?, lookup(repo, &names[0])?, lookup(repo, &names[1])?));
    let (head, tip, taken) = state.pool.run(id, job).await?;
    let tip = tip.ok_or(GitError::BranchNotFound)?;
    let rules = state.protection.rules(id).await?;
    let rule = rules.exact(old.as_bytes());
    if (head.branch == old || rule.is_some()) && write.actor.permission < Permission::Admin {
        return Err(AuthError::PermissionRequired { needed: Permission::Admin }.into());
    }
    let edits = [(&old, Some(tip), None), (&new, None, Some(tip))];
    let edits = edits.map(|(branch, old, new)| RefEdit { name: branch.to_ref(), old, new });
    // The rule of the old name follows, so only patterns can forbid that this name goes.
    write.check(state, &edits[usize::from(rule.is_some())..]).await?;
    require_version(state, id, &old, &rules).await?;
    if old == new || taken.is_some() {
        return Err(GitError::invalid("name", "taken", "already exists").into());
    }
    if rule.is_some() {
        check_pattern(&rules, &new)?;
    }
    let change = RefTransaction::new(UpdateKind::Rename, write.actor.user, edits.to_vec());
    let response = RenameBranchResponse {};
    write.apply(state, guard, &change, (new.as_bytes(), "name"), Some(by), &response).await?;
    Ok(response)
}

/// Checks that the protection rule of a branch can get the branch's new name.
fn check_pattern(rules: &Rules, new: &BranchName) -> Result<(), GitError> {
    if rules.exact(new.as_bytes()).is_some() {
        return Err(GitError::invalid("name", "taken", "has a protection rule of its own"));
    }
    let pattern = std::str::from_utf8(new.as_bytes()).ok().and_then(|name| Pattern::parse(name).ok());
    pattern.map(drop).ok_or_else(|| GitError::invalid("name", "too_long", "is too long for a protection rule"))
}

/// Points HEAD to a branch, or only checks that this is possible.
pub(super) async fn set_default_branch(
    state: &AppState,
    request: Request<SetDefaultBranchRequest>,
) -> Result<SetDefaultBranchResponse, RpcError> {
    Caller::of(&request).require_service()?;
    let request = request.into_inner();
    let branch = BranchName::parse(request.default_branch.as_bytes()).map_err(|error| error.of("default_branch"))?;
    let id = RepositoryId(request.repository_id);
    let work = async move |state: AppState| {
        let guard = state.updater.lock(id).await?;
        if request.check_only {
            state.updater.is_new_default_branch(&guard, &branch).await?;
            return Ok(None);
        }
        state.updater.set_default_branch(&guard, branch).await
    };
    let Some(change) = finish(state, work).await? else { return Ok(SetDefaultBranchResponse::default()) };
    Ok(SetDefaultBranchResponse { number: change.number, size_bytes: change.size_bytes, is_empty: change.is_empty })
}
