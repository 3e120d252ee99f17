//! Branch protection rules. Gogs does not have them.

use std::collections::HashMap;

use ferrite_api_types::convert::{MissingField, require};
use ferrite_api_types::links::{Links, encode_path};
use ferrite_api_types::schema::{Schema, Schemas};
use ferrite_api_types::{Accounts, Time, shape};
use ferrite_proto::git::{
    self, DeleteProtectionRequest, GetProtectionRequest, ListProtectionsRequest, SetProtectionRequest,
};
use ferrite_proto::operation;
use ferrite_proto::repo::GetUsersRequest;
use serde::Serialize;
use serde_json::Value;

use crate::api::access::ResolvedAccess;
use crate::api::call::{ApiCall, Authenticated, operations};
use crate::http::error::{ApiError, ApiResult, FieldError};
use crate::http::page::{Total, WholeList};
use crate::http::path::RepoPath;
use crate::http::request::{Fields, Flag, Kind, Mistakes, NonEmpty, OrDefault, RequestBody, Text, Texts, fields};
use crate::http::response::{Created, Either, Json, List, NoContent};
use crate::http::routes::variant;

/// Maximum number of accounts in one rule.
const MAX_PUSH_USERS: usize = 100;
/// Stands for a pattern that is not UTF-8. No rule has this pattern.
const UNPARSABLE_PATTERN: &str = "\u{fffd}";

operations! {
    "/api/v1/repos/{owner}/{repo}/branch_protections" =>
        get list as operation::LIST_PROTECTIONS,
        post create as operation::SET_PROTECTION;
    "/api/v1/repos/{owner}/{repo}/branch_protections/{*pattern}" =>
        get get as operation::GET_PROTECTION,
        put replace as variant(operation::SET_PROTECTION, "ByPattern"),
        delete remove as operation::DELETE_PROTECTION;
}

fields! {
    /// A branch protection rule. It replaces the rule with the same pattern.
    struct NewProtection {
        ..settings: ProtectionSettings,
        /// The name of a branch. `*` matches any text, including slashes. Required, here or as
        /// `rule_name`.
        pattern: NonEmpty<Text<200>> = "release/*",
        /// The pattern, under Gitea's name.
        rule_name: NonEmpty<Text<200>> = "release/*",
    }
}

fields! {
    /// The settings of the branch protection rule in the path.
    struct ChangedProtection {
        ..settings: ProtectionSettings,
        /// If given, the pattern in the path.
        pattern: NonEmpty<Text<200>> = "release/*",
        /// As `pattern`, under Gitea's name.
        rule_name: NonEmpty<Text<200>> = "release/*",
    }
}

fields! {
    /// The settings of a branch protection rule.
    struct ProtectionSettings {
        /// Whether force pushes are allowed.
        allow_force: OrDefault<Flag> = false,
        /// Whether the branch can be deleted.
        allow_delete: OrDefault<Flag> = false,
        /// The users who can push to the branch. If empty, everyone with write permission can. Also
        /// accepted under Gitea's name, `push_whitelist_usernames`.
        push_users | "push_whitelist_usernames": OrDefault<PushUsers> = ["bob"],
    }
}

/// Names of at most [`MAX_PUSH_USERS`] users.
enum PushUsers {}

impl Kind for PushUsers {
    type Value = Vec<String>;

    fn read(name: &str, value: Value, mistakes: &mut Mistakes) -> Option<Vec<String>> {
        let names = <Texts<MAX_PUSH_USERS> as Kind>::read(name, value, mistakes)?;
        if names.len() > MAX_PUSH_USERS {
            return mistakes.add(name, "too_long", "must not be more than 100");
        }
        Some(names)
    }

    fn schema(schemas: &mut Schemas) -> Schema {
        <Texts<MAX_PUSH_USERS> as Kind>::schema(schemas)
    }
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
        /// Whether the branch can be deleted.
        allow_delete: bool,
        /// The users who can push to the branch. If empty, everyone with write permission can.
        push_users: Vec<String>,
        /// The same users, under Gitea's name.
        push_whitelist_usernames: Vec<String>,
        created_at: Time,
    }
}

impl Protection {
    fn new(rule: git::Protection, accounts: &Accounts, links: &Links) -> Result<Self, MissingField> {
        // A deleted account stays in the list as `ghost`: an empty list would allow pushes of all writers.
        let name = |id: i64| accounts.by_id(id, links).username;
        let push_users: Vec<_> = rule.push_user_ids.into_iter().map(name).collect();
        Ok(Self {
            rule_name: rule.pattern.clone(),
            pattern: rule.pattern,
            allow_force: rule.allow_force,
            allow_delete: rule.allow_delete,
            push_whitelist_usernames: push_users.clone(),
            push_users,
            created_at: Time::new(rule.created_time, "created_time")?,
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
    let read = body.read_with(&call.body_limits, |object, mistakes| {
        let is_given =
            |name: &str| object.get(name).is_some_and(|value| !value.is_null() && value.as_str() != Some(""));
        if !["pattern", "rule_name"].into_iter().any(is_given) {
            mistakes.note("pattern", "required", "is required");
        }
        let NewProtection { settings, pattern, rule_name } = NewProtection::read(object, mistakes)?;
        if pattern.as_ref().zip(rule_name.as_ref()).is_some_and(|(pattern, name)| pattern != name) {
            mistakes.note("rule_name", "invalid", "must be the same as `pattern`");
        }
        Some((pattern.or(rule_name)?, settings))
    });
    let ((pattern, rule), _permit) = read.await?;
    let access = call.confirm(access, operation::SET_PROTECTION).await?;
    set(&call, &access, pattern, rule).await
}

async fn replace(
    Authenticated(call): Authenticated,
    path: RepoPath,
    body: RequestBody<ChangedProtection>,
) -> ApiResult<Either<Created<Protection>, Json<Protection>>> {
    let access = call.access(&path, operation::SET_PROTECTION).await?;
    let read = body.read_with(&call.body_limits, |object, mistakes| {
        let pattern = String::from_utf8(path.rest).ok();
        let pattern = pattern.or_else(|| mistakes.add("pattern", "invalid", "must be UTF-8"));
        let changed = ChangedProtection::read(object, mistakes);
        let (in_path, ChangedProtection { settings, pattern, rule_name }) = (pattern?, changed?);
        for (name, given) in [("pattern", pattern), ("rule_name", rule_name)] {
            if given.is_some_and(|given| given != in_path) {
                mistakes.note(name, "invalid", "must be the pattern in the path");
            }
        }
        Some((in_path, settings))
    });
    let ((pattern, rule), _permit) = read.await?;
    let access = call.confirm(access, operation::SET_PROTECTION).await?;
    set(&call, &access, pattern, rule).await
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
    rule: ProtectionSettings,
) -> ApiResult<Either<Created<Protection>, Json<Protection>>> {
    let ProtectionSettings { allow_force, allow_delete, push_users } = rule;
    let push_user_ids = user_ids(call, &push_users).await?;
    let request = SetProtectionRequest { repository_id: access.id, pattern, allow_force, allow_delete, push_user_ids };
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.protections().set_protection(request).await?.into_inner();
    let rule = convert_one(call, response.protection).await?;
    if !response.is_new {
        return Ok(Either::Second(Json(rule)));
    }
    let location = format!("{}/branch_protections/{}", access.urls.api(), encode_path(rule.pattern.as_bytes()));
    Ok(Either::First(Created::at(location, rule)))
}

/// Returns the ids of the users with these names. 422 for unknown names.
async fn user_ids(call: &ApiCall, names: &[String]) -> Result<Vec<i64>, ApiError> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let request = GetUsersRequest { usernames: names.to_vec(), ..Default::default() };
    let found = call.clients.accounts().get_users(call.request(request)).await?.into_inner();
    let users = found.users.into_iter().filter(|user| !user.is_organization);
    let known: HashMap<_, _> = users.map(|user| (user.username.to_lowercase(), user.id)).collect();
    let (mut ids, mut errors) = (Vec::with_capacity(names.len()), Vec::new());
    for name in names {
        match known.get(&name.to_lowercase()) {
            Some(id) => ids.push(*id),
            None => errors.push(FieldError::new("push_users", "unknown", format!("user `{name}` does not exist"))),
        }
    }
    if errors.is_empty() { Ok(ids) } else { Err(ApiError::invalid(errors)) }
}

/// Converts rules, with the names of their accounts.
async fn convert(call: &ApiCall, rules: Vec<git::Protection>) -> Result<Vec<Protection>, ApiError> {
    let accounts = call.accounts_by_id(rules.iter().flat_map(|rule| rule.push_user_ids.clone())).await?;
    let rules = rules.into_iter().map(|rule| Protection::new(rule, &accounts, &call.links));
    Ok(rules.collect::<Result<_, _>>()?)
}

/// Converts the rule of a response, as [`convert`].
async fn convert_one(call: &ApiCall, rule: Option<git::Protection>) -> Result<Protection, ApiError> {
    let rule = require(rule, "protection")?;
    Ok(require(convert(call, vec![rule]).await?.pop(), "protection")?)
}
