//! Branch protection rules. Gogs does not have them. Fields have Gitea's names, and some a name of
//! our own as well.

use std::collections::HashMap;

use ferrite_api_types::convert::{MissingField, require};
use ferrite_api_types::links::{Links, encode_path};
use ferrite_api_types::schema::{Schema, Schemas};
use ferrite_api_types::{Accounts, Time, shape};
use ferrite_proto::git::{
    self, DeleteProtectionRequest, GetProtectionRequest, ListProtectionsRequest, SetProtectionRequest, StatusContexts,
    UpdateProtectionRequest, UserIds,
};
use ferrite_proto::operation;
use ferrite_proto::repo::GetUsersRequest;
use serde::Serialize;
use serde_json::Value;
use tonic::Status;

use crate::api::access::ResolvedAccess;
use crate::api::call::{ApiCall, Authenticated, operations};
use crate::http::error::{ApiError, ApiResult, FieldError};
use crate::http::page::{Total, WholeList};
use crate::http::path::RepoPath;
use crate::http::request::{
    Fields, Flag, JsonObject, Kind, Mistakes, NonEmpty, Optional, RequestBody, Text, Texts, fields,
};
use crate::http::response::{Created, Either, Json, List, NoContent};
use crate::http::routes::variant;

/// Settings of Gitea that would have no effect here: only their empty values are accepted.
const WITHOUT_EFFECT: [&str; 25] = [
    "approvals_whitelist_teams",
    "approvals_whitelist_username",
    "approvals_whitelist_usernames",
    "block_on_official_review_requests",
    "block_on_outdated_branch",
    "block_on_rejected_reviews",
    "dismiss_stale_approvals",
    "enable_approvals_whitelist",
    "enable_force_push_allowlist",
    "enable_merge_whitelist",
    "force_push_allowlist_deploy_keys",
    "force_push_allowlist_teams",
    "force_push_allowlist_usernames",
    "ignore_stale_approvals",
    "merge_whitelist_teams",
    "merge_whitelist_usernames",
    "priority",
    "protected_file_patterns",
    "push_whitelist_deploy_keys",
    "push_whitelist_teams",
    "require_signed_commits",
    "required_approvals",
    "block_admin_merge_override",
    "unprotected_file_patterns",
    "enable_bypass_allowlist",
];
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
    struct ReplacedProtection {
        ..settings: ProtectionSettings,
        /// If given, the pattern in the path.
        pattern: NonEmpty<Text<200>> = "release/*",
        /// As `pattern`, under Gitea's name.
        rule_name: NonEmpty<Text<200>> = "release/*",
    }
}

fields! {
    /// The settings of a branch protection rule. Absent ones have their default in a new rule, and
    /// stay as they are in a changed one. Settings of Gitea about pull requests are refused unless
    /// they are empty.
    struct ProtectionSettings {
        /// Whether force pushes are allowed; false by default. Also accepted under Gitea's name,
        /// `enable_force_push`.
        allow_force | "enable_force_push": Optional<Flag> = false,
        /// Whether the branch can be deleted; false by default.
        allow_delete: Optional<Flag> = false,
        /// Whether anybody can push to the branch; true by default.
        enable_push: Optional<Flag> = true,
        /// Whether only the listed users can push; true needs a list that is not empty. False clears
        /// the list.
        enable_push_whitelist: Optional<Flag> = true,
        /// The users who can push to the branch. If empty, everyone with write permission can. Also
        /// accepted under Gitea's name, `push_whitelist_usernames`; an empty list under that name
        /// opens no rule that lists users, unless `enable_push_whitelist` is false.
        push_users | "push_whitelist_usernames": Optional<Listed<100>> = ["bob"],
        /// Whether a commit needs successful statuses before it can be pushed to the branch; false
        /// by default. A commit made through the API has none, so it is refused.
        enable_status_check: Optional<Flag> = true,
        /// The contexts whose newest status must be `success`. `*` matches any text. If empty, the
        /// commit needs at least one status, and all must be `success`.
        status_check_contexts: Optional<Listed<50>> = ["ci/*"],
    }
}

/// The request that has settings.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Write {
    /// Absent settings have their default.
    Whole,
    /// Absent settings stay as they are.
    Partial {
        /// Whether the list of users is empty under Gitea's name only. Gitea allows nobody then, and
        /// an empty list allows everyone here.
        empties_whitelist: bool,
    },
}

/// What a rule can be changed to.
struct Settings {
    allow_force: Option<bool>,
    allow_delete: Option<bool>,
    forbids_push: Option<bool>,
    push_users: Option<Vec<String>>,
    requires_push_users: bool,
    keeps_push_users: bool,
    requires_checks: Option<bool>,
    required_contexts: Option<Vec<String>>,
}

impl ProtectionSettings {
    /// Reads the settings, and checks those that depend on each other.
    fn settings(self, write: Write, mistakes: &mut Mistakes) -> Settings {
        let has_users = self.push_users.as_ref().is_some_and(|users| !users.is_empty());
        if self.enable_push_whitelist == Some(false) && has_users {
            mistakes.note("enable_push_whitelist", "invalid", "must be true if users are listed");
        }
        let requires_push_users = self.enable_push_whitelist == Some(true) && self.enable_push != Some(false);
        let lists_none = self.push_users.as_ref().map_or(write == Write::Whole, Vec::is_empty);
        if requires_push_users && lists_none {
            let message =
                "must name a user if `enable_push_whitelist` is true; use `enable_push: false` to forbid all pushes";
            mistakes.note("push_whitelist_usernames", "required", message);
        }
        let empties_whitelist = matches!(write, Write::Partial { empties_whitelist: true });
        let keeps_push_users = empties_whitelist && self.enable_push_whitelist != Some(false);
        let push_users = if self.enable_push_whitelist == Some(false) { Some(Vec::new()) } else { self.push_users };
        Settings {
            allow_force: self.allow_force,
            allow_delete: self.allow_delete,
            forbids_push: self.enable_push.map(|is_open| !is_open),
            push_users,
            requires_push_users,
            keeps_push_users,
            requires_checks: self.enable_status_check,
            required_contexts: self.status_check_contexts,
        }
    }
}

/// Reports settings that have no effect here.
fn refuse_without_effect(object: &JsonObject, mistakes: &mut Mistakes) {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Bool(is_set) => !is_set,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(entries) => entries.is_empty(),
        Value::Object(_) => false,
    };
    for name in WITHOUT_EFFECT {
        if object.get(name).is_some_and(|value| !is_empty(value)) {
            mistakes.note(name, "invalid", "is not supported");
        }
    }
}

/// At most `MAX` texts.
enum Listed<const MAX: usize> {}

impl<const MAX: usize> Kind for Listed<MAX> {
    type Value = Vec<String>;

    fn read(name: &str, value: Value, mistakes: &mut Mistakes) -> Option<Vec<String>> {
        let texts = <Texts<MAX> as Kind>::read(name, value, mistakes)?;
        if texts.len() > MAX {
            return mistakes.add(name, "too_long", &format!("must not be more than {MAX}"));
        }
        Some(texts)
    }

    fn schema(schemas: &mut Schemas) -> Schema {
        <Texts<MAX> as Kind>::schema(schemas)
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
        let push_users: Vec<_> = rule.push_user_ids.into_iter().map(name).collect();
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
    let read = body.read_with(&call.body_limits, |object, mistakes| {
        let is_given =
            |name: &str| object.get(name).is_some_and(|value| !value.is_null() && value.as_str() != Some(""));
        if !["pattern", "rule_name"].into_iter().any(is_given) {
            mistakes.note("pattern", "required", "is required");
        }
        refuse_without_effect(object, mistakes);
        let NewProtection { settings, pattern, rule_name } = NewProtection::read(object, mistakes)?;
        if pattern.as_ref().zip(rule_name.as_ref()).is_some_and(|(pattern, name)| pattern != name) {
            mistakes.note("rule_name", "invalid", "must be the same as `pattern`");
        }
        Some((pattern.or(rule_name)?, settings.settings(Write::Whole, mistakes)))
    });
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

/// Reads the settings of the rule in the path.
fn read_named(
    path: Vec<u8>,
    write: Write,
    object: &mut JsonObject,
    mistakes: &mut Mistakes,
) -> Option<(String, Settings)> {
    let pattern = String::from_utf8(path).ok();
    let pattern = pattern.or_else(|| mistakes.add("pattern", "invalid", "must be UTF-8"));
    refuse_without_effect(object, mistakes);
    let read = ReplacedProtection::read(object, mistakes);
    let (in_path, ReplacedProtection { settings, pattern, rule_name }) = (pattern?, read?);
    for (name, given) in [("pattern", pattern), ("rule_name", rule_name)] {
        if given.is_some_and(|given| given != in_path) {
            mistakes.note(name, "invalid", "must be the pattern in the path");
        }
    }
    Some((in_path, settings.settings(write, mistakes)))
}

/// Changes the given settings of a rule.
async fn update(
    Authenticated(call): Authenticated,
    path: RepoPath,
    body: RequestBody<ReplacedProtection>,
) -> ApiResult<Json<Protection>> {
    let access = call.access(&path, operation::UPDATE_PROTECTION).await?;
    let read = body.read_with(&call.body_limits, |object, mistakes| {
        let is_empty = |users: &Value| users.as_array().is_some_and(Vec::is_empty);
        let empties_whitelist = object.get("push_whitelist_usernames").is_some_and(is_empty)
            && !object.get("push_users").is_some_and(Value::is_array);
        read_named(path.rest, Write::Partial { empties_whitelist }, object, mistakes)
    });
    let ((pattern, rule), _permit) = read.await?;
    let access = call.confirm(access, operation::UPDATE_PROTECTION).await?;
    let users = PushUsers::find(&call, rule.push_users.as_deref().unwrap_or_default()).await?;
    let push_user_ids = rule.push_users.is_some().then(|| UserIds { ids: users.ids.clone() });
    let request = UpdateProtectionRequest {
        repository_id: access.id,
        pattern,
        allow_force: rule.allow_force,
        allow_delete: rule.allow_delete,
        push_user_ids,
        forbids_push: rule.forbids_push,
        requires_checks: rule.requires_checks,
        required_contexts: rule.required_contexts.map(|contexts| StatusContexts { contexts }),
        requires_push_users: rule.requires_push_users,
        keeps_push_users: rule.keeps_push_users,
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
    let users = PushUsers::find(call, &rule.push_users.unwrap_or_default()).await?;
    let request = SetProtectionRequest {
        repository_id: access.id,
        pattern,
        allow_force: rule.allow_force.unwrap_or_default(),
        allow_delete: rule.allow_delete.unwrap_or_default(),
        push_user_ids: users.ids.clone(),
        forbids_push: rule.forbids_push.unwrap_or_default(),
        requires_checks: rule.requires_checks.unwrap_or_default(),
        required_contexts: rule.required_contexts.unwrap_or_default(),
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

/// The users who may push, by their ids.
struct PushUsers {
    /// An unknown user has the id zero, with which git-svc refuses the rule.
    ids: Vec<i64>,
    /// The errors of unknown users.
    unknown: Vec<FieldError>,
}

impl PushUsers {
    async fn find(call: &ApiCall, names: &[String]) -> Result<Self, ApiError> {
        let mut users = Self { ids: Vec::with_capacity(names.len()), unknown: Vec::new() };
        if names.is_empty() {
            return Ok(users);
        }
        let request = GetUsersRequest { usernames: names.to_vec(), ..Default::default() };
        let found = call.clients.accounts().get_users(call.request(request)).await?.into_inner();
        let accounts = found.users.into_iter().filter(|user| !user.is_organization);
        let known: HashMap<_, _> = accounts.map(|user| (user.username.to_lowercase(), user.id)).collect();
        for name in names {
            let id = known.get(&name.to_lowercase()).copied();
            users.ids.push(id.unwrap_or_default());
            if id.is_none() {
                let message = format!("user `{name}` does not exist");
                users.unknown.push(FieldError::new("push_users", "unknown", message));
            }
        }
        Ok(users)
    }

    /// Returns the response of git-svc. Its error names the unknown users after all other fields.
    fn checked<T>(self, response: Result<T, Status>) -> Result<T, ApiError> {
        match response {
            Ok(response) if self.unknown.is_empty() => Ok(response),
            Ok(_) => Err(ApiError::invalid(self.unknown)),
            Err(status) if self.unknown.is_empty() => Err(status.into()),
            Err(status) => Err(ApiError::from(status).with_field("push_user_ids", self.unknown)),
        }
    }
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
