//! Protection rules of branches. An extension of this API: no version of Gogs has them.

use std::collections::HashMap;

use axum::http::StatusCode;
use ferrite_proto::git::{
    self, DeleteProtectionRequest, GetProtectionRequest, ListProtectionsRequest, SetProtectionRequest,
};
use ferrite_proto::operation;
use ferrite_proto::repo::GetUsersRequest;

use crate::api::access::ResolvedAccess;
use crate::api::call::{ApiCall, Authenticated, routes};
use crate::dto::{Protection, require};
use crate::http::body::JsonBody;
use crate::http::body_limits::MAX_JSON_BYTES;
use crate::http::error::{ApiError, ApiResult, FieldError};
use crate::http::fields::FieldReader;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::RepoPath;
use crate::http::query::Query;

/// Most accounts in one rule.
const MAX_PUSH_USERS: usize = 100;
/// A pattern that no rule has, in place of one that is not UTF-8.
const UNPARSABLE_PATTERN: &str = "\u{fffd}";

routes! {
    "/api/v1/repos/{owner}/{repo}/branch_protections" =>
        get list as operation::LIST_PROTECTIONS,
        post create as operation::SET_PROTECTION;
    "/api/v1/repos/{owner}/{repo}/branch_protections/{*pattern}" =>
        get get as operation::GET_PROTECTION,
        put replace as operation::SET_PROTECTION,
        delete remove as operation::DELETE_PROTECTION;
}

async fn list(Authenticated(call): Authenticated, path: RepoPath, query: Query) -> ApiResult {
    let access = call.access(&path, operation::LIST_PROTECTIONS).await?;
    let request = ListProtectionsRequest { repository_id: access.id };
    let request = call.request_with_grant(&access.grant, request);
    let rules = call.clients.protections().list_protections(request).await?.into_inner().protections;
    let page = query.page(PageLimits::WHOLE_LIST);
    let headers = query.headers(page, i64::try_from(rules.len()).unwrap_or(i64::MAX), &call.links);
    // A repository has few rules, so git-svc returns all of them.
    Ok(json::page(convert(&call, page.of(rules).collect()).await?, headers))
}

async fn get(Authenticated(call): Authenticated, path: RepoPath) -> ApiResult {
    let access = call.access(&path, operation::GET_PROTECTION).await?;
    let request = GetProtectionRequest { repository_id: access.id, protection_id: 0, pattern: pattern(&path) };
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.protections().get_protection(request).await?.into_inner();
    let rule = require(response.protection, "protection")?;
    Ok(json::ok(convert(&call, vec![rule]).await?.pop()))
}

async fn create(Authenticated(call): Authenticated, path: RepoPath, body: JsonBody) -> ApiResult {
    let access = call.access(&path, operation::SET_PROTECTION).await?;
    let mut fields = body.fields(&call.body_limits, MAX_JSON_BYTES).await?;
    let access = call.confirm(access, operation::SET_PROTECTION).await?;
    let pattern = fields.required_non_empty("pattern");
    set(&call, &access, fields, pattern).await
}

async fn replace(Authenticated(call): Authenticated, path: RepoPath, body: JsonBody) -> ApiResult {
    let access = call.access(&path, operation::SET_PROTECTION).await?;
    let mut fields = body.fields(&call.body_limits, MAX_JSON_BYTES).await?;
    let access = call.confirm(access, operation::SET_PROTECTION).await?;
    let pattern = String::from_utf8(path.rest).unwrap_or_else(|_| {
        fields.add_error("pattern", "invalid", "must be UTF-8");
        String::new()
    });
    set(&call, &access, fields, pattern).await
}

async fn remove(Authenticated(call): Authenticated, path: RepoPath) -> ApiResult {
    let access = call.access(&path, operation::DELETE_PROTECTION).await?;
    let request = DeleteProtectionRequest { repository_id: access.id, protection_id: 0, pattern: pattern(&path) };
    call.clients.protections().delete_protection(call.request_with_grant(&access.grant, request)).await?;
    Ok(json::no_content())
}

/// Returns the pattern in a path.
fn pattern(path: &RepoPath) -> String {
    String::from_utf8(path.rest.clone()).unwrap_or_else(|_| UNPARSABLE_PATTERN.to_owned())
}

/// Creates or replaces a rule.
async fn set(call: &ApiCall, access: &ResolvedAccess, mut fields: FieldReader, pattern: String) -> ApiResult {
    let (allow_force, allow_delete) = (fields.flag("allow_force"), fields.flag("allow_delete"));
    let names = fields.texts("push_users");
    if names.len() > MAX_PUSH_USERS {
        fields.add_error("push_users", "too_long", "must not be more than 100");
    }
    let _permit = fields.finish()?;
    let push_user_ids = user_ids(call, &names).await?;
    let request = SetProtectionRequest { repository_id: access.id, pattern, allow_force, allow_delete, push_user_ids };
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.protections().set_protection(request).await?.into_inner();
    let status = if response.is_new { StatusCode::CREATED } else { StatusCode::OK };
    let rule = require(response.protection, "protection")?;
    Ok(json::with_status(status, convert(call, vec![rule]).await?.pop()))
}

/// Returns the ids of the users with these names.
///
/// # Errors
/// 422 for names that no user has.
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
