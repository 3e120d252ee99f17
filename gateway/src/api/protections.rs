//! Protection rules of branches. An extension of this API: no version of Gogs has them.

use std::collections::HashMap;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ferrite_proto::git::{
    self, DeleteProtectionRequest, GetProtectionRequest, ListProtectionsRequest, SetProtectionRequest,
};
use ferrite_proto::operation;
use ferrite_proto::repo::GetUsersRequest;

use super::access::Access;
use super::state::ApiState;
use crate::auth::{Authenticated, RequestContext};
use crate::dto::{Protection, require};
use crate::http::body::JsonBody;
use crate::http::body_limits::MAX_JSON_BYTES;
use crate::http::error::{ApiError, FieldError};
use crate::http::fields::FieldReader;
use crate::http::json::{self, Json};
use crate::http::page::PageLimits;
use crate::http::path::RepoPath;
use crate::http::query::Query;
use crate::http::routes::routes;

/// Most accounts in one rule.
const MAX_PUSH_USERS: usize = 100;
/// A pattern that no rule has, in place of one that is not UTF-8.
const UNPARSABLE_PATTERN: &str = "\u{fffd}";

routes! { ApiState:
    "/api/v1/repos/{owner}/{repo}/branch_protections" =>
        get list as operation::LIST_PROTECTIONS,
        post create as operation::SET_PROTECTION;
    "/api/v1/repos/{owner}/{repo}/branch_protections/{*pattern}" =>
        get get as operation::GET_PROTECTION,
        put replace as operation::SET_PROTECTION,
        delete remove as operation::DELETE_PROTECTION;
}

async fn list(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    query: Query,
) -> Result<Response, ApiError> {
    let access = api.access(&context, &path, operation::LIST_PROTECTIONS).await?;
    let request = ListProtectionsRequest { repository_id: access.id };
    let request = context.request_with_grant(&access.grant, request);
    let rules = api.clients.protections().list_protections(request).await?.into_inner().protections;
    let page = query.page(PageLimits::WHOLE_LIST);
    let headers = query.headers(page, i64::try_from(rules.len()).unwrap_or(i64::MAX), &api.links);
    // A repository has few rules, so git-svc returns all of them.
    let size = usize::try_from(page.size).unwrap_or(usize::MAX);
    let before = size.saturating_mul(usize::try_from(page.number - 1).unwrap_or(usize::MAX));
    let rules = rules.into_iter().skip(before).take(size).collect();
    Ok(json::page(convert(&api, &context, rules).await?, headers))
}

async fn get(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
) -> Result<Response, ApiError> {
    let access = api.access(&context, &path, operation::GET_PROTECTION).await?;
    let request = GetProtectionRequest { repository_id: access.id, protection_id: 0, pattern: pattern(&path) };
    let request = context.request_with_grant(&access.grant, request);
    let answer = api.clients.protections().get_protection(request).await?.into_inner();
    let rule = require(answer.protection, "protection")?;
    Ok(json::ok(convert(&api, &context, vec![rule]).await?.pop()))
}

async fn create(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let access = api.access(&context, &path, operation::SET_PROTECTION).await?;
    let mut fields = body.fields(&api.body_limits, MAX_JSON_BYTES).await?;
    let pattern = fields.required_non_empty("pattern");
    set(&api, &context, &access, fields, pattern).await
}

async fn replace(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let access = api.access(&context, &path, operation::SET_PROTECTION).await?;
    let mut fields = body.fields(&api.body_limits, MAX_JSON_BYTES).await?;
    let pattern = String::from_utf8(path.rest).unwrap_or_else(|_| {
        fields.add_error("pattern", "invalid", "must be UTF-8");
        String::new()
    });
    set(&api, &context, &access, fields, pattern).await
}

async fn remove(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
) -> Result<Response, ApiError> {
    let access = api.access(&context, &path, operation::DELETE_PROTECTION).await?;
    let request = DeleteProtectionRequest { repository_id: access.id, protection_id: 0, pattern: pattern(&path) };
    api.clients.protections().delete_protection(context.request_with_grant(&access.grant, request)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Returns the pattern in a path.
fn pattern(path: &RepoPath) -> String {
    String::from_utf8(path.rest.clone()).unwrap_or_else(|_| UNPARSABLE_PATTERN.to_owned())
}

/// Creates or replaces a rule.
async fn set(
    api: &ApiState,
    context: &RequestContext,
    access: &Access,
    mut fields: FieldReader,
    pattern: String,
) -> Result<Response, ApiError> {
    let (allow_force, allow_delete) = (fields.flag("allow_force"), fields.flag("allow_delete"));
    let names = fields.texts("push_users");
    if names.len() > MAX_PUSH_USERS {
        fields.add_error("push_users", "too_long", "must not be more than 100");
    }
    let _permit = fields.finish()?;
    let push_user_ids = user_ids(api, context, &names).await?;
    let request = SetProtectionRequest { repository_id: access.id, pattern, allow_force, allow_delete, push_user_ids };
    let request = context.request_with_grant(&access.grant, request);
    let answer = api.clients.protections().set_protection(request).await?.into_inner();
    let status = if answer.is_new { StatusCode::CREATED } else { StatusCode::OK };
    let rule = require(answer.protection, "protection")?;
    Ok(Json(status, convert(api, context, vec![rule]).await?.pop()).into_response())
}

/// Returns the ids of the users with these names.
///
/// # Errors
/// 422 for names that no user has.
async fn user_ids(api: &ApiState, context: &RequestContext, names: &[String]) -> Result<Vec<i64>, ApiError> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let request = GetUsersRequest { usernames: names.to_vec(), ..Default::default() };
    let found = api.clients.accounts().get_users(context.request(request)).await?.into_inner();
    let users = found.users.into_iter().filter(|user| !user.is_organization);
    let known: HashMap<_, _> = users.map(|user| (user.username.to_lowercase(), user.id)).collect();
    let (mut ids, mut errors) = (Vec::with_capacity(names.len()), Vec::new());
    for name in names {
        match known.get(&name.to_lowercase()) {
            Some(id) => ids.push(*id),
            None => errors.push(FieldError {
                field: "push_users".into(),
                code: "unknown".into(),
                message: format!("user `{name}` does not exist"),
            }),
        }
    }
    if errors.is_empty() { Ok(ids) } else { Err(ApiError::invalid(errors)) }
}

/// Converts rules, with the names of their accounts.
async fn convert(
    api: &ApiState,
    context: &RequestContext,
    rules: Vec<git::Protection>,
) -> Result<Vec<Protection>, ApiError> {
    let accounts = api.accounts_by_id(context, rules.iter().flat_map(|rule| rule.push_user_ids.clone())).await?;
    let rules = rules.into_iter().map(|rule| Protection::new(rule, &accounts, &api.links));
    Ok(rules.collect::<Result<_, _>>()?)
}
