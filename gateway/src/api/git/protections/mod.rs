//! Branch protection rules. Gogs does not have them. Fields have Gitea's names, and some a name of
//! our own as well. `settings` reads those of requests.

mod settings;

use std::collections::HashMap;

use ferrite_api_types::convert::{MissingField, require};
use ferrite_api_types::links::{Links, encode_path};
use ferrite_api_types::{Accounts, Time, shape};
use ferrite_proto::git::{
    self, DeleteProtectionRequest, GetProtectionRequest, ListProtectionsRequest, SetProtectionRequest, StatusContexts,
    UpdateProtectionRequest, UserIds,
};
use ferrite_proto::operation;
use ferrite_proto::repo::GetUsersRequest;
use serde::Serialize;
use tonic::Status;

use self::settings::{NewProtection, ReplacedProtection, Settings, Write, read_named, read_new};
use crate::api::access::ResolvedAccess;
use crate::api::call::{ApiCall, Authenticated, operations};
use crate::http::error::{ApiError, ApiResult, FieldError};
use crate::http::page::{Total, WholeList};
use crate::http::path::RepoPath;
use crate::http::request::RequestBody;
use crate::http::response::{Created, Either, Json, List, NoContent};
use crate::http::routes::variant;

/// Stands for a pattern that is not UTF-8. No rule has this pattern.
const UNPARSABLE_PATTERN: &str = "\u{fffd}";

operations! {
    "/api/v1/repos/{owner}/{repo}/branch_protections" =>
        get list as operation::LIST_PROTECTIONS,
        post create as operation::SET_PROTECTION;
    "/api/v1/repos/{owner}/{repo}/branch_protections/{*pattern}" =>
        get get as operation::GET_PROTECTION,
        put replace as variant(operation::SET_PROTECTION, "ByPattern"),
        patch update as operation::UPDATE_PROTECTION,
        delete remove as operation::DELETE_PROTECTION;
}

shape! {
    /// A branch protection rule.
    #[derive(Clone, Debug, Serialize)]
    struct Protection {
        /// The name of a branch. `*` matches any text, including slashes.
        pattern: String,
        /// The pattern, under Gitea's name.
        rule_name: String,
        /// Whether force pushes are allowed.
        allow_force: bool,
        /// The same, under Gitea's name.
        enable_force_push: bool,
        /// Whether the branch can be deleted.
        allow_delete: bool,
        /// Whether anybody can push to the branch.
        enable_push: bool,
        /// Whether only the listed users can push.
        enable_push_whitelist: bool,
        /// The users who can push to the branch. If empty, everyone with write permission can.
        push_users: Vec<String>,
        /// The same users, under Gitea's name.
        push_whitelist_usernames: Vec<String>,
        /// Whether only the listed users can merge pull requests into the branch.
        enable_merge_whitelist: bool,
        /// The users who can merge. If empty, everyone with write permission can.
        merge_whitelist_usernames: Vec<String>,
        /// Whether the head of a pull request must contain all commits of the branch to be merged.
        block_on_outdated_branch: bool,
        /// The approvals that a pull request needs to be merged, from users with write permission.
        required_approvals: i32,
        /// Whether only approvals of the listed users count.
        enable_approvals_whitelist: bool,
        /// The users whose approvals count. If empty, everyone's with write permission do.
        approvals_whitelist_username: Vec<String>,
        /// Whether a rejection by a user with write permission keeps a pull request from being merged.
        block_on_rejected_reviews: bool,
        /// Whether a pull request waits for the teams, and users with write permission, that are
        /// asked for a review.
        block_on_official_review_requests: bool,
        /// Whether a push to the head dismisses the approvals of a pull request.
        dismiss_stale_approvals: bool,
        /// Whether approvals of earlier heads do not count.
        ignore_stale_approvals: bool,
        /// Whether a commit needs successful statuses before it can be pushed to the branch.
        enable_status_check: bool,
        /// The contexts whose newest status must be `success`. If empty, the commit needs at least
        /// one status, and all must be `success`.
        status_check_contexts: Vec<String>,
        created_at: Time,
        updated_at: Time,
    }
}

impl Protection {
    fn new(rule: git::Protection, accounts: &Accounts, links: &Links) -> Result<Self, MissingField> {
        // A deleted account stays in the list as `ghost`: an empty list would allow pushes of all writers.
        let name = |id: i64| accounts.by_id(id, links).username;
        let names = |ids: Vec<i64>| ids.into_iter().map(name).collect::<Vec<_>>();
        let (push_users, merge_users) = (names(rule.push_user_ids), names(rule.merge_user_ids));
        let approvers = names(rule.approver_ids);
        Ok(Self {
            rule_name: rule.pattern.clone(),
            pattern: rule.pattern,
            allow_force: rule.allow_force,
            enable_force_push: rule.allow_force,
            allow_delete: rule.allow_delete,
            enable_push: !rule.forbids_push,
            enable_push_whitelist: !push_users.is_empty(),
            push_whitelist_usernames: push_users.clone(),
            push_users,
            enable_merge_whitelist: !merge_users.is_empty(),
            merge_whitelist_usernames: merge_users,
            block_on_outdated_branch: rule.requires_current_head,
            required_approvals: rule.required_approvals,
            enable_approvals_whitelist: !approvers.is_empty(),
            approvals_whitelist_username: approvers,
            block_on_rejected_reviews: rule.blocks_on_rejection,
            block_on_official_review_requests: rule.blocks_on_requests,
            dismiss_stale_approvals: rule.dismisses_stale_approvals,
            ignore_stale_approvals: rule.ignores_stale_approvals,
            enable_status_check: rule.requires_checks,
            status_check_contexts: rule.required_contexts,
            created_at: Time::new(rule.created_time, "created_time")?,
            updated_at: Time::new(rule.updated_time, "updated_time")?,
        })
    }
}

async fn list(Authenticated(call): Authenticated, path: RepoPath, query: WholeList) -> ApiResult<List<Protection>> {
    let access = call.access(&path, operation::LIST_PROTECTIONS).await?;
    let request = ListProtectionsRequest { repository_id: access.id };
    let request = call.request_with_grant(&access.grant, request);
    let rules = call.clients.protections().list_protections(request).await?.into_inner().protections;
    // A repository has few rules, so git-svc returns all of them.
    let total = Total::of(&rules);
    let shown = convert(&call, query.page.of(rules).collect()).await?;
    Ok(query.list(shown, total, &call.links))
}

async fn get(Authenticated(call): Authenticated, path: RepoPath) -> ApiResult<Json<Protection>> {
    let access = call.access(&path, operation::GET_PROTECTION).await?;
    let request = GetProtectionRequest { repository_id: access.id, protection_id: 0, pattern: pattern(&path) };
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.protections().get_protection(request).await?.into_inner();
    Ok(Json(convert_one(&call, response.protection).await?))
}

async fn create(
    Authenticated(call): Authenticated,
    path: RepoPath,
    body: RequestBody<NewProtection>,
) -> ApiResult<Either<Created<Protection>, Json<Protection>>> {
    let access = call.access(&path, operation::SET_PROTECTION).await?;
    let read = body.read_with(&call.body_limits, read_new);
    let ((pattern, rule), _permit) = read.await?;
    let access = call.confirm(access, operation::SET_PROTECTION).await?;
    set(&call, &access, pattern, rule).await
}

async fn replace(
    Authenticated(call): Authenticated,
    path: RepoPath,
    body: RequestBody<ReplacedProtection>,
) -> ApiResult<Either<Created<Protection>, Json<Protection>>> {
    let access = call.access(&path, operation::SET_PROTECTION).await?;
    let read =
        body.read_with(&call.body_limits, |object, mistakes| read_named(path.rest, Write::Whole, object, mistakes));
    let ((pattern, rule), _permit) = read.await?;
    let access = call.confirm(access, operation::SET_PROTECTION).await?;
    set(&call, &access, pattern, rule).await
}

/// Changes the given settings of a rule.
async fn update(
    Authenticated(call): Authenticated,
    path: RepoPath,
    body: RequestBody<ReplacedProtection>,
) -> ApiResult<Json<Protection>> {
    let access = call.access(&path, operation::UPDATE_PROTECTION).await?;
    let read = body.read_with(&call.body_limits, |object, mistakes| {
        let write = Write::partial(object);
        read_named(path.rest, write, object, mistakes)
    });
    let ((pattern, rule), _permit) = read.await?;
    let access = call.confirm(access, operation::UPDATE_PROTECTION).await?;
    let users = ListedUsers::find(&call, &rule).await?;
    let push_user_ids = rule.push.names.is_some().then(|| UserIds { ids: users.push_ids.clone() });
    let merge_user_ids = rule.merge.names.is_some().then(|| UserIds { ids: users.merge_ids.clone() });
    let approver_ids = rule.approve.names.is_some().then(|| UserIds { ids: users.approver_ids.clone() });
    let request = UpdateProtectionRequest {
        repository_id: access.id,
        pattern,
        allow_force: rule.allow_force,
        allow_delete: rule.allow_delete,
        push_user_ids,
        forbids_push: rule.forbids_push,
        requires_checks: rule.requires_checks,
        required_contexts: rule.required_contexts.map(|contexts| StatusContexts { contexts }),
        requires_push_users: rule.push.is_required,
        keeps_push_users: rule.push.is_kept,
        merge_user_ids,
        requires_merge_users: rule.merge.is_required,
        keeps_merge_users: rule.merge.is_kept,
        requires_current_head: rule.requires_current_head,
        required_approvals: rule.required_approvals,
        approver_ids,
        requires_approvers: rule.approve.is_required,
        keeps_approvers: rule.approve.is_kept,
        dismisses_stale_approvals: rule.dismisses_stale_approvals,
        ignores_stale_approvals: rule.ignores_stale_approvals,
        blocks_on_rejection: rule.blocks_on_rejection,
        blocks_on_requests: rule.blocks_on_requests,
    };
    let request = call.request_with_grant(&access.grant, request);
    let response = users.checked(call.clients.protections().update_protection(request).await)?.into_inner();
    Ok(Json(convert_one(&call, response.protection).await?))
}

async fn remove(Authenticated(call): Authenticated, path: RepoPath) -> ApiResult<NoContent> {
    let access = call.access(&path, operation::DELETE_PROTECTION).await?;
    let request = DeleteProtectionRequest { repository_id: access.id, protection_id: 0, pattern: pattern(&path) };
    call.clients.protections().delete_protection(call.request_with_grant(&access.grant, request)).await?;
    Ok(NoContent)
}

/// Returns the pattern in a path.
fn pattern(path: &RepoPath) -> String {
    String::from_utf8(path.rest.clone()).unwrap_or_else(|_| UNPARSABLE_PATTERN.to_owned())
}

/// Creates or replaces a rule.
async fn set(
    call: &ApiCall,
    access: &ResolvedAccess,
    pattern: String,
    rule: Settings,
) -> ApiResult<Either<Created<Protection>, Json<Protection>>> {
    let users = ListedUsers::find(call, &rule).await?;
    let request = SetProtectionRequest {
        repository_id: access.id,
        pattern,
        allow_force: rule.allow_force.unwrap_or_default(),
        allow_delete: rule.allow_delete.unwrap_or_default(),
        push_user_ids: users.push_ids.clone(),
        forbids_push: rule.forbids_push.unwrap_or_default(),
        requires_checks: rule.requires_checks.unwrap_or_default(),
        required_contexts: rule.required_contexts.unwrap_or_default(),
        merge_user_ids: users.merge_ids.clone(),
        requires_current_head: rule.requires_current_head.unwrap_or_default(),
        required_approvals: rule.required_approvals.unwrap_or_default(),
        approver_ids: users.approver_ids.clone(),
        dismisses_stale_approvals: rule.dismisses_stale_approvals.unwrap_or_default(),
        ignores_stale_approvals: rule.ignores_stale_approvals.unwrap_or_default(),
        blocks_on_rejection: rule.blocks_on_rejection.unwrap_or_default(),
        blocks_on_requests: rule.blocks_on_requests.unwrap_or_default(),
    };
    let request = call.request_with_grant(&access.grant, request);
    let response = users.checked(call.clients.protections().set_protection(request).await)?.into_inner();
    let rule = convert_one(call, response.protection).await?;
    if !response.is_new {
        return Ok(Either::Second(Json(rule)));
    }
    let location = format!("{}/branch_protections/{}", access.urls.api(), encode_path(rule.pattern.as_bytes()));
    Ok(Either::First(Created::at(location, rule)))
}

/// The users that a rule lists, by their ids. An unknown user has the id zero, with which git-svc
/// refuses the rule.
struct ListedUsers {
    push_ids: Vec<i64>,
    merge_ids: Vec<i64>,
    approver_ids: Vec<i64>,
    /// The errors of unknown users in each list.
    unknown: [Vec<FieldError>; 3],
}

impl ListedUsers {
    /// Looks up the users of all lists in one call.
    async fn find(call: &ApiCall, rule: &Settings) -> Result<Self, ApiError> {
        let lists = [&rule.push, &rule.merge, &rule.approve];
        let [push, merge, approve] = lists.map(|list| list.names.as_deref().unwrap_or_default());
        let usernames = [push, merge, approve].concat();
        let known: HashMap<_, _> = if usernames.is_empty() {
            HashMap::new()
        } else {
            let request = GetUsersRequest { usernames, ..Default::default() };
            let found = call.clients.accounts().get_users(call.request(request)).await?.into_inner();
            let accounts = found.users.into_iter().filter(|user| !user.is_organization);
            accounts.map(|user| (user.username.to_lowercase(), user.id)).collect()
        };
        let ids = |field: &str, names: &[String]| {
            let (mut ids, mut unknown) = (Vec::with_capacity(names.len()), Vec::new());
            for name in names {
                let id = known.get(&name.to_lowercase()).copied();
                ids.push(id.unwrap_or_default());
                if id.is_none() {
                    let message = format!("user `{name}` does not exist");
                    unknown.push(FieldError::new(field, "unknown", message));
                }
            }
            (ids, unknown)
        };
        let (push_ids, unknown_pushers) = ids("push_users", push);
        let (merge_ids, unknown_mergers) = ids("merge_whitelist_usernames", merge);
        let (approver_ids, unknown_approvers) = ids("approvals_whitelist_username", approve);
        let unknown = [unknown_pushers, unknown_mergers, unknown_approvers];
        Ok(Self { push_ids, merge_ids, approver_ids, unknown })
    }

    /// Returns the response of git-svc. Its error names the unknown users after all other fields.
    fn checked<T>(self, response: Result<T, Status>) -> Result<T, ApiError> {
        let is_known = self.unknown.iter().all(Vec::is_empty);
        match response {
            Ok(response) if is_known => Ok(response),
            Ok(_) => Err(ApiError::invalid(self.unknown.concat())),
            Err(status) => {
                let lists = ["push_user_ids", "merge_user_ids", "approver_ids"].into_iter().zip(self.unknown);
                let unknown = lists.filter(|(_, unknown)| !unknown.is_empty());
                Err(unknown.fold(status.into(), |error: ApiError, (field, unknown)| error.with_field(field, unknown)))
            }
        }
    }
}

/// Converts rules, with the names of their accounts.
async fn convert(call: &ApiCall, rules: Vec<git::Protection>) -> Result<Vec<Protection>, ApiError> {
    let lists = rules.iter().flat_map(|rule| [&rule.push_user_ids, &rule.merge_user_ids, &rule.approver_ids]);
    let ids: Vec<_> = lists.flatten().copied().collect();
    let accounts = call.accounts_by_id(ids).await?;
    let rules = rules.into_iter().map(|rule| Protection::new(rule, &accounts, &call.links));
    Ok(rules.collect::<Result<_, _>>()?)
}

/// Converts the rule of a response, as [`convert`].
async fn convert_one(call: &ApiCall, rule: Option<git::Protection>) -> Result<Protection, ApiError> {
    let rule = require(rule, "protection")?;
    Ok(require(convert(call, vec![rule]).await?.pop(), "protection")?)
}
