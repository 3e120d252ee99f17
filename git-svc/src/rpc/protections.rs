use ferrite_db::DbError;
use ferrite_listener::service;
use ferrite_proto::{
    git::{
        DeleteProtectionRequest, DeleteProtectionResponse, GetProtectionRequest, GetProtectionResponse,
        ListProtectionsRequest, ListProtectionsResponse, SetProtectionRequest, SetProtectionResponse,
        UpdateProtectionRequest, UpdateProtectionResponse, UserIds, protection_service_server::ProtectionService,
    },
    id::RepositoryId,
};
use ferrite_rpc::{auth::Caller, version};
use git_store::types::{
    error::GitError,
    protection::{MAX_CONTEXTS, MAX_RULES, MAX_USERS, Pattern, RequiredChecks, Rule},
    required_reviews::{MAX_APPROVALS, RequiredReviews},
};
use tonic::Request;

use super::{authorize, decode::FieldErrors, encode, finish, ref_writes::WriteAccess, statuses::check_context_of};
use crate::{ref_updates::AuditContext, rpc_error::RpcError, state::AppState};

service!(ProtectionService for AppState {
    list_protections(ListProtectionsRequest) -> ListProtectionsResponse;
    get_protection(GetProtectionRequest) -> GetProtectionResponse;
    set_protection(SetProtectionRequest) -> SetProtectionResponse;
    update_protection(UpdateProtectionRequest) -> UpdateProtectionResponse;
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
    let access = WriteAccess::of(state, &caller, id).await?;
    let by = AuditContext::of(&caller, &access.grant, request.metadata());
    let request = request.into_inner();
    let rule = parse(request, state.clock.now_us())?;
    finish(state, async move |state| set(&state, id, rule, &access, by).await).await
}

/// Stores a rule under the repository's write lock, so that every later ref change is checked
/// against it. A repository deleted meanwhile gets no rule.
async fn set(
    state: &AppState,
    id: RepositoryId,
    mut rule: Rule,
    access: &WriteAccess,
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
    access.confirm(state).await?;
    let delivered = state.updater.set_rule(&guard, &mut rule, by).await?;
    drop(guard);
    delivered.await;
    Ok(SetProtectionResponse { protection: Some(encode::protection(rule)), is_new })
}

/// Checks the precondition of the request. The caller must hold the repository's write lock.
fn require_version(rule: Option<&Rule>) -> Result<(), DbError> {
    Ok(version::require(rule.cloned().map(encode::protection).as_ref())?)
}

fn parse(request: SetProtectionRequest, now_us: i64) -> Result<Rule, RpcError> {
    let mut errors = FieldErrors::default();
    let pattern = errors.take(Pattern::parse(&request.pattern));
    let users = errors.take(parse_users("push_user_ids", request.push_user_ids));
    let mergers = errors.take(parse_users("merge_user_ids", request.merge_user_ids));
    let approvers = errors.take(parse_users("approver_ids", request.approver_ids));
    let approvals = errors.take(parse_approvals(request.required_approvals));
    let contexts = errors.take(parse_contexts(request.required_contexts));
    let (Some(pattern), Some(users), Some(mergers), Some(approvers), Some(approvals), Some(contexts)) =
        (pattern, users, mergers, approvers, approvals, contexts)
    else {
        return Err(errors.into_error());
    };
    Ok(Rule {
        id: 0,
        pattern,
        allow_force: request.allow_force,
        allow_delete: request.allow_delete,
        forbids_push: request.forbids_push,
        users,
        checks: RequiredChecks { are_required: request.requires_checks, contexts },
        mergers,
        requires_current_head: request.requires_current_head,
        reviews: RequiredReviews {
            approvals,
            approvers,
            dismisses_stale: request.dismisses_stale_approvals,
            ignores_stale: request.ignores_stale_approvals,
            blocks_on_rejection: request.blocks_on_rejection,
            blocks_on_requests: request.blocks_on_requests,
        },
        created_us: now_us,
        updated_us: now_us,
    })
}

fn parse_users(field: &str, mut users: Vec<i64>) -> Result<Vec<i64>, GitError> {
    users.sort_unstable();
    users.dedup();
    if users.len() > MAX_USERS {
        return Err(GitError::invalid(field, "too_long", "must not be more than 100"));
    }
    if users.iter().any(|user| *user <= 0) {
        return Err(GitError::invalid(field, "invalid", "must be greater than 0"));
    }
    Ok(users)
}

fn parse_approvals(count: i32) -> Result<u8, GitError> {
    let count = u8::try_from(count).ok().filter(|count| *count <= MAX_APPROVALS);
    count.ok_or_else(|| GitError::invalid("required_approvals", "out_of_range", "must be between 0 and 50"))
}

fn parse_contexts(mut contexts: Vec<String>) -> Result<Vec<String>, GitError> {
    const FIELD: &str = "status_check_contexts";
    contexts.retain(|context| !context.is_empty());
    contexts.sort_unstable();
    contexts.dedup();
    if contexts.len() > MAX_CONTEXTS {
        return Err(GitError::invalid(FIELD, "too_long", "must not be more than 50"));
    }
    match contexts.iter().find_map(|context| check_context_of(FIELD, context)) {
        Some(violation) => Err(GitError::Invalid(violation)),
        None => Ok(contexts),
    }
}

async fn update_protection(
    state: &AppState,
    request: Request<UpdateProtectionRequest>,
) -> Result<UpdateProtectionResponse, RpcError> {
    let caller = Caller::of(&request);
    let id = RepositoryId(request.get_ref().repository_id);
    let access = WriteAccess::of(state, &caller, id).await?;
    let by = AuditContext::of(&caller, &access.grant, request.metadata());
    let changes = Changes::parse(request.into_inner())?;
    finish(state, async move |state| {
        let guard = state.updater.lock(id).await?;
        let mut rule = named(&state, id, 0, &changes.request.pattern).await?;
        require_version(Some(&rule))?;
        changes.apply(&mut rule)?;
        rule.updated_us = state.clock.now_us();
        access.confirm(&state).await?;
        let delivered = state.updater.set_rule(&guard, &mut rule, by).await?;
        drop(guard);
        delivered.await;
        Ok(UpdateProtectionResponse { protection: Some(encode::protection(rule)) })
    })
    .await
}

/// The request to change a rule, with what was checked in it. `None` stays as it is.
struct Changes {
    /// Without its lists.
    request: UpdateProtectionRequest,
    users: Option<Vec<i64>>,
    mergers: Option<Vec<i64>>,
    approvers: Option<Vec<i64>>,
    approvals: Option<u8>,
    contexts: Option<Vec<String>>,
}

impl Changes {
    fn parse(mut request: UpdateProtectionRequest) -> Result<Self, RpcError> {
        let mut errors = FieldErrors::default();
        let parse_ids = |field, users: Option<UserIds>| users.map(|users| parse_users(field, users.ids)).transpose();
        let users = errors.take(parse_ids("push_user_ids", request.push_user_ids.take()));
        let mergers = errors.take(parse_ids("merge_user_ids", request.merge_user_ids.take()));
        let approvers = errors.take(parse_ids("approver_ids", request.approver_ids.take()));
        let approvals = errors.take(request.required_approvals.map(parse_approvals).transpose());
        let contexts = request.required_contexts.take().map(|list| parse_contexts(list.contexts));
        let contexts = errors.take(contexts.transpose());
        let (Some(users), Some(mergers), Some(approvers), Some(approvals), Some(contexts)) =
            (users, mergers, approvers, approvals, contexts)
        else {
            return Err(errors.into_error());
        };
        Ok(Self { request, users, mergers, approvers, approvals, contexts })
    }

    /// Changes a rule, unless it would lose its users by mistake.
    fn apply(self, rule: &mut Rule) -> Result<(), GitError> {
        let Self { request, users, mergers, approvers, approvals, contexts } = self;
        rule.allow_force = request.allow_force.unwrap_or(rule.allow_force);
        rule.allow_delete = request.allow_delete.unwrap_or(rule.allow_delete);
        rule.forbids_push = request.forbids_push.unwrap_or(rule.forbids_push);
        rule.checks.are_required = request.requires_checks.unwrap_or(rule.checks.are_required);
        if let Some(contexts) = contexts {
            rule.checks.contexts = contexts;
        }
        rule.requires_current_head = request.requires_current_head.unwrap_or(rule.requires_current_head);
        let lost_users = replace(&mut rule.users, users);
        if !rule.forbids_push {
            NO_PUSHERS.check(&rule.users, request.requires_push_users, request.keeps_push_users && lost_users)?;
        }
        let lost_users = replace(&mut rule.mergers, mergers);
        NO_MERGERS.check(&rule.mergers, request.requires_merge_users, request.keeps_merge_users && lost_users)?;

        let reviews = &mut rule.reviews;
        let lost_users = replace(&mut reviews.approvers, approvers);
        NO_APPROVERS.check(&reviews.approvers, request.requires_approvers, request.keeps_approvers && lost_users)?;
        reviews.approvals = approvals.unwrap_or(reviews.approvals);
        reviews.dismisses_stale = request.dismisses_stale_approvals.unwrap_or(reviews.dismisses_stale);
        reviews.ignores_stale = request.ignores_stale_approvals.unwrap_or(reviews.ignores_stale);
        reviews.blocks_on_rejection = request.blocks_on_rejection.unwrap_or(reviews.blocks_on_rejection);
        reviews.blocks_on_requests = request.blocks_on_requests.unwrap_or(reviews.blocks_on_requests);
        Ok(())
    }
}

/// Sets a list of users, if there is a new one. Returns whether the list lost all its users.
fn replace(users: &mut Vec<i64>, new: Option<Vec<i64>>) -> bool {
    let had_users = !users.is_empty();
    if let Some(new) = new {
        *users = new;
    }
    had_users && users.is_empty()
}

/// What to say about a list of users that must not be empty: an empty one is for everyone with
/// write permission.
struct EmptyList {
    field: &'static str,
    /// Its switch is on.
    required: &'static str,
    /// It had users before.
    lost: &'static str,
}

const NO_PUSHERS: EmptyList = EmptyList {
    field: "push_whitelist_usernames",
    required: "must name a user if `enable_push_whitelist` is true; `enable_push: false` forbids all pushes",
    lost: "must name a user; `enable_push_whitelist: false` lets everyone with write permission push",
};
const NO_MERGERS: EmptyList = EmptyList {
    field: "merge_whitelist_usernames",
    required: "must name a user if `enable_merge_whitelist` is true",
    lost: "must name a user; `enable_merge_whitelist: false` lets everyone with write permission merge",
};
const NO_APPROVERS: EmptyList = EmptyList {
    field: "approvals_whitelist_username",
    required: "must name a user if `enable_approvals_whitelist` is true",
    lost: "must name a user; `enable_approvals_whitelist: false` counts everyone with write permission",
};

impl EmptyList {
    fn check(&self, users: &[i64], is_required: bool, is_lost: bool) -> Result<(), GitError> {
        let message = match (is_required, is_lost) {
            _ if !users.is_empty() => return Ok(()),
            (true, _) => self.required,
            (false, true) => self.lost,
            (false, false) => return Ok(()),
        };
        Err(GitError::invalid(self.field, "required", message))
    }
}

async fn delete_protection(
    state: &AppState,
    request: Request<DeleteProtectionRequest>,
) -> Result<DeleteProtectionResponse, RpcError> {
    let caller = Caller::of(&request);
    let id = RepositoryId(request.get_ref().repository_id);
    let access = WriteAccess::of(state, &caller, id).await?;
    let by = AuditContext::of(&caller, &access.grant, request.metadata());
    let request = request.into_inner();
    finish(state, async move |state| delete(&state, id, request, &access, by).await).await
}

async fn delete(
    state: &AppState,
    id: RepositoryId,
    request: DeleteProtectionRequest,
    access: &WriteAccess,
    by: AuditContext,
) -> Result<DeleteProtectionResponse, RpcError> {
    let guard = state.updater.lock(id).await?;
    let rule = named(state, id, request.protection_id, &request.pattern).await?;
    require_version(Some(&rule))?;
    access.confirm(state).await?;
    let delivered = state.updater.remove_rule(&guard, &rule, by).await?;
    drop(guard);
    delivered.await;
    Ok(DeleteProtectionResponse {})
}
