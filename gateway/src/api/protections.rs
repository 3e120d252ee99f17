//! Rules about branches: ours, no version of Gogs has them in its API.

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
use crate::auth::{Call, Signed};
use crate::dto::{Protection, present};
use crate::http::body::{Fields, JSON_BYTES, Payload};
use crate::http::error::{ApiError, FieldError};
use crate::http::json::{self, Answer};
use crate::http::path::RepoPath;
use crate::http::routes::routes;
use crate::state::Gateway;

/// Accounts of one rule.
const MAX_USERS: usize = 100;
/// The pattern that no branch's name can match, in the place of one that is no text.
const NO_PATTERN: &str = "\u{fffd}";

routes! { Gateway:
    "/api/v1/repos/{owner}/{repo}/branch_protections" =>
        get list as operation::LIST_PROTECTIONS,
        post create as operation::SET_PROTECTION;
    "/api/v1/repos/{owner}/{repo}/branch_protections/{*pattern}" =>
        get get as operation::GET_PROTECTION,
        put replace as operation::SET_PROTECTION,
        delete remove as operation::DELETE_PROTECTION;
}

async fn list(State(gateway): State<Gateway>, Signed(call): Signed, path: RepoPath) -> Result<Response, ApiError> {
    let access = gateway.access(&call, &path, operation::LIST_PROTECTIONS).await?;
    let request = ListProtectionsRequest { repository_id: access.id };
    let request = call.granted(&access.grant, request);
    let answer = gateway.clients.protections().list_protections(request).await?.into_inner();
    Ok(json::ok(shown(&gateway, &call, answer.protections).await?))
}

async fn get(State(gateway): State<Gateway>, Signed(call): Signed, path: RepoPath) -> Result<Response, ApiError> {
    let access = gateway.access(&call, &path, operation::GET_PROTECTION).await?;
    let request = GetProtectionRequest { repository_id: access.id, protection_id: 0, pattern: pattern(&path) };
    let request = call.granted(&access.grant, request);
    let answer = gateway.clients.protections().get_protection(request).await?.into_inner();
    let rule = present(answer.protection, "protection")?;
    Ok(json::ok(shown(&gateway, &call, vec![rule]).await?.pop()))
}

async fn create(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: RepoPath,
    payload: Payload,
) -> Result<Response, ApiError> {
    let access = gateway.access(&call, &path, operation::SET_PROTECTION).await?;
    let mut fields = payload.fields(&gateway, JSON_BYTES).await?;
    let pattern = fields.required("pattern");
    set(&gateway, &call, &access, fields, pattern).await
}

async fn replace(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: RepoPath,
    payload: Payload,
) -> Result<Response, ApiError> {
    let access = gateway.access(&call, &path, operation::SET_PROTECTION).await?;
    let mut fields = payload.fields(&gateway, JSON_BYTES).await?;
    let pattern = String::from_utf8(path.rest).unwrap_or_else(|_| {
        fields.refuse("pattern", "invalid", "must be UTF-8");
        String::new()
    });
    set(&gateway, &call, &access, fields, pattern).await
}

async fn remove(State(gateway): State<Gateway>, Signed(call): Signed, path: RepoPath) -> Result<Response, ApiError> {
    let access = gateway.access(&call, &path, operation::DELETE_PROTECTION).await?;
    let request = DeleteProtectionRequest { repository_id: access.id, protection_id: 0, pattern: pattern(&path) };
    gateway.clients.protections().delete_protection(call.granted(&access.grant, request)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// The pattern in a path.
fn pattern(path: &RepoPath) -> String {
    String::from_utf8(path.rest.clone()).unwrap_or_else(|_| NO_PATTERN.to_owned())
}

/// Makes or replaces a rule.
async fn set(
    gateway: &Gateway,
    call: &Call,
    access: &Access,
    mut fields: Fields,
    pattern: String,
) -> Result<Response, ApiError> {
    let (allow_force, allow_delete) = (fields.flag("allow_force"), fields.flag("allow_delete"));
    let names = fields.texts("push_users");
    if names.len() > MAX_USERS {
        fields.refuse("push_users", "too_long", "must not be more than 100");
    }
    let _slot = fields.finish()?;
    let push_user_ids = ids(gateway, call, &names).await?;
    let request = SetProtectionRequest { repository_id: access.id, pattern, allow_force, allow_delete, push_user_ids };
    let request = call.granted(&access.grant, request);
    let answer = gateway.clients.protections().set_protection(request).await?.into_inner();
    let status = if answer.is_new { StatusCode::CREATED } else { StatusCode::OK };
    let rule = present(answer.protection, "protection")?;
    Ok(Answer(status, shown(gateway, call, vec![rule]).await?.pop()).into_response())
}

/// The accounts of these names; one that there is not is a mistake.
async fn ids(gateway: &Gateway, call: &Call, names: &[String]) -> Result<Vec<i64>, ApiError> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let request = GetUsersRequest { usernames: names.to_vec(), ..Default::default() };
    let found = gateway.clients.accounts().get_users(call.request(request)).await?.into_inner();
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

/// Rules with the names of their accounts.
async fn shown(gateway: &Gateway, call: &Call, rules: Vec<git::Protection>) -> Result<Vec<Protection>, ApiError> {
    let accounts = gateway.accounts_by_id(call, rules.iter().flat_map(|rule| rule.push_user_ids.clone())).await?;
    let rules = rules.into_iter().map(|rule| Protection::new(rule, &accounts, &gateway.links));
    Ok(rules.collect::<Result<_, _>>()?)
}
