use ferrite_db::DbError;
use ferrite_listener::service;
use ferrite_proto::{
    git::{
        DeleteProtectionRequest, DeleteProtectionResponse, GetProtectionRequest, GetProtectionResponse,
        ListProtectionsRequest, ListProtectionsResponse, SetProtectionRequest, SetProtectionResponse,
        protection_service_server::ProtectionService,
    },
    id::RepositoryId,
};
use ferrite_rpc::{auth::Caller, version};
use git_store::types::{
    error::GitError,
    protection::{MAX_RULES, MAX_USERS, Pattern, Rule},
};
use tonic::Request;

use super::{authorize, encode, finish};
use crate::{ref_updates::AuditContext, rpc_error::RpcError, state::AppState};

service!(ProtectionService for AppState {
    list_protections(ListProtectionsRequest) -> ListProtectionsResponse;
    get_protection(GetProtectionRequest) -> GetProtectionResponse;
    set_protection(SetProtectionRequest) -> SetProtectionResponse;
    delete_protection(DeleteProtectionRequest) -> DeleteProtectionResponse;
});

async fn list_protections(
    state: &AppState,
    request: Request<ListProtectionsRequest>,
) -> Result<ListProtectionsResponse, RpcError> {
    let (_, id) = authorize(state, request, |request| request.repository_id).await?;
    let rules = state.protection.rules(id).await?;
    Ok(ListProtectionsResponse { protections: rules.into_vec().into_iter().map(encode::protection).collect() })
}

async fn get_protection(
    state: &AppState,
    request: Request<GetProtectionRequest>,
) -> Result<GetProtectionResponse, RpcError> {
    let (request, id) = authorize(state, request, |request| request.repository_id).await?;
    let rule = encode::protection(named(state, id, request.protection_id, &request.pattern).await?);
    version::tell(&rule);
    Ok(GetProtectionResponse { protection: Some(rule) })
}

/// Returns the rule with this id, or with this pattern if there is no id.
async fn named(state: &AppState, repository: RepositoryId, id: i64, pattern: &str) -> Result<Rule, RpcError> {
    let rules = state.protection.rules(repository).await?;
    let is_named = |rule: &Rule| if id == 0 { rule.pattern.as_str() == pattern } else { rule.id == id };
    Ok(rules.into_vec().into_iter().find(is_named).ok_or(GitError::ProtectionNotFound)?)
}

async fn set_protection(
    state: &AppState,
    request: Request<SetProtectionRequest>,
) -> Result<SetProtectionResponse, RpcError> {
    let caller = Caller::of(&request);
    let id = RepositoryId(request.get_ref().repository_id);
    let grant = state.authorize(&caller, id).await?;
    let by = AuditContext::of(&caller, &grant, request.metadata());
    let request = request.into_inner();
    let rule = parse(request, state.clock.now_us())?;
    finish(state, async move |state| set(&state, id, rule, by).await).await
}

/// Stores a rule under the repository's write lock, so that every later ref change is checked
/// against it. A repository deleted meanwhile gets no rule.
async fn set(
    state: &AppState,
    id: RepositoryId,
    mut rule: Rule,
    by: AuditContext,
) -> Result<SetProtectionResponse, RpcError> {
    let guard = state.updater.lock(id).await?;
    let row = state.repositories.find(id).await?;
    if row.is_none_or(|row| row.deleted) {
        return Err(GitError::RepositoryNotFound.into());
    }
    let rules = state.protection.rules(id).await?.into_vec();
    let old = rules.iter().find(|old| old.pattern == rule.pattern);
    require_version(old)?;
    if old.is_none() && rules.len() >= MAX_RULES {
        return Err(GitError::TooManyProtections { limit: MAX_RULES }.into());
    }
    rule.created_us = old.map_or(rule.created_us, |old| old.created_us);
    let is_new = old.is_none();
    let delivered = state.updater.set_rule(&guard, &mut rule, by).await?;
    drop(guard);
    delivered.await;
    Ok(SetProtectionResponse { protection: Some(encode::protection(rule)), is_new })
}

/// Checks the precondition of the request. The caller must hold the repository's write lock.
fn require_version(rule: Option<&Rule>) -> Result<(), DbError> {
    Ok(version::require(rule.cloned().map(encode::protection).as_ref())?)
}

fn parse(request: SetProtectionRequest, now_us: i64) -> Result<Rule, GitError> {
    let mut users = request.push_user_ids;
    users.sort_unstable();
    users.dedup();
    if users.len() > MAX_USERS {
        return Err(GitError::invalid("push_user_ids", "too_long", "must not be more than 100"));
    }
    if users.iter().any(|user| *user <= 0) {
        return Err(GitError::invalid("push_user_ids", "invalid", "must be greater than 0"));
    }
    Ok(Rule {
        id: 0,
        pattern: Pattern::parse(&request.pattern)?,
        allow_force: request.allow_force,
        allow_delete: request.allow_delete,
        users,
        created_us: now_us,
    })
}

async fn delete_protection(
    state: &AppState,
    request: Request<DeleteProtectionRequest>,
) -> Result<DeleteProtectionResponse, RpcError> {
    let caller = Caller::of(&request);
    let id = RepositoryId(request.get_ref().repository_id);
    let grant = state.authorize(&caller, id).await?;
    let by = AuditContext::of(&caller, &grant, request.metadata());
    let request = request.into_inner();
    finish(state, async move |state| delete(&state, id, request, by).await).await
}

async fn delete(
    state: &AppState,
    id: RepositoryId,
    request: DeleteProtectionRequest,
    by: AuditContext,
) -> Result<DeleteProtectionResponse, RpcError> {
    let guard = state.updater.lock(id).await?;
    let rule = named(state, id, request.protection_id, &request.pattern).await?;
    require_version(Some(&rule))?;
    let delivered = state.updater.remove_rule(&guard, &rule, by).await?;
    drop(guard);
    delivered.await;
    Ok(DeleteProtectionResponse {})
}
