//! Webhooks of a repository, of an organization, and of the site. Those of the last two are an extension of this API.

use ferrite_proto::hook::{CreateHookRequest, DeleteHookRequest, GetHookRequest, ListHooksRequest, UpdateHookRequest};
use ferrite_proto::operation;

use super::owner::HookOwnerPath;
use crate::api::call::{Authenticated, routes};
use crate::dto::{Hook, require};
use crate::http::body::JsonBody;
use crate::http::error::ApiResult;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::Params;
use crate::http::query::Query;
use crate::http::routes::{administrator, organization};

routes! {
    "/api/v1/repos/{owner}/{repo}/hooks" => get list as operation::LIST_HOOKS, post create as operation::CREATE_HOOK;
    "/api/v1/repos/{owner}/{repo}/hooks/{id}" =>
        get get as operation::GET_HOOK,
        patch update as operation::UPDATE_HOOK,
        delete remove as operation::DELETE_HOOK;
    "/api/v1/orgs/{org}/hooks" =>
        get list as organization(operation::LIST_HOOKS),
        post create as organization(operation::CREATE_HOOK);
    "/api/v1/orgs/{org}/hooks/{id}" =>
        get get as organization(operation::GET_HOOK),
        patch update as organization(operation::UPDATE_HOOK),
        delete remove as organization(operation::DELETE_HOOK);
    "/api/v1/admin/hooks" =>
        get list as administrator(operation::LIST_HOOKS),
        post create as administrator(operation::CREATE_HOOK);
    "/api/v1/admin/hooks/{id}" =>
        get get as administrator(operation::GET_HOOK),
        patch update as administrator(operation::UPDATE_HOOK),
        delete remove as administrator(operation::DELETE_HOOK);
}

async fn list(Authenticated(call): Authenticated, path: HookOwnerPath, query: Query) -> ApiResult {
    let access = call.hook_access(&path, operation::LIST_HOOKS).await?;
    let page = query.page(PageLimits::WHOLE_LIST);
    let request = ListHooksRequest { owner: access.owner(), page: page.number, page_size: page.size };
    let response = call.clients.hooks().list_hooks(access.request(&call, request)).await?.into_inner();
    let hooks = response.hooks.into_iter().map(Hook::new).collect::<Result<Vec<_>, _>>()?;
    Ok(json::page(hooks, query.headers(page, response.total_count, &call.links)))
}

async fn get(Authenticated(call): Authenticated, path: HookOwnerPath, params: Params) -> ApiResult {
    let access = call.hook_access(&path, operation::GET_HOOK).await?;
    let request = GetHookRequest { owner: access.owner(), hook_id: params.id("id") };
    let response = call.clients.hooks().get_hook(access.request(&call, request)).await?.into_inner();
    Ok(json::ok(Hook::new(require(response.hook, "hook")?)?))
}

async fn create(Authenticated(call): Authenticated, path: HookOwnerPath, body: JsonBody) -> ApiResult {
    let decode = call.hook_body(&path, operation::CREATE_HOOK, body, |fields| CreateHookRequest {
        owner: None,
        r#type: fields.required_non_empty("type"),
        config: fields.required_map("config"),
        events: fields.texts("events"),
        is_active: fields.flag("active"),
    });
    let (access, request) = decode.await?;
    let request = CreateHookRequest { owner: access.owner(), ..request };
    let response = call.clients.hooks().create_hook(access.request(&call, request)).await?.into_inner();
    Ok(json::created(Hook::new(require(response.hook, "hook")?)?))
}

async fn update(Authenticated(call): Authenticated, path: HookOwnerPath, params: Params, body: JsonBody) -> ApiResult {
    let decode = call.hook_body(&path, operation::UPDATE_HOOK, body, |fields| {
        let events = fields.optional_texts("events");
        UpdateHookRequest {
            owner: None,
            hook_id: params.id("id"),
            config: fields.required_map("config"),
            has_events: events.is_some(),
            events: events.unwrap_or_default(),
            is_active: fields.optional_flag("active"),
            drop_previous_secret: fields.flag("drop_previous_secret"),
        }
    });
    let (access, request) = decode.await?;
    let request = UpdateHookRequest { owner: access.owner(), ..request };
    let response = call.clients.hooks().update_hook(access.request(&call, request)).await?.into_inner();
    Ok(json::ok(Hook::new(require(response.hook, "hook")?)?))
}

async fn remove(Authenticated(call): Authenticated, path: HookOwnerPath, params: Params) -> ApiResult {
    let access = call.hook_access(&path, operation::DELETE_HOOK).await?;
    let request = DeleteHookRequest { owner: access.owner(), hook_id: params.id("id") };
    call.clients.hooks().delete_hook(access.request(&call, request)).await?;
    Ok(json::no_content())
}
