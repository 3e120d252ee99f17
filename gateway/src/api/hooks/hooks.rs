//! Webhooks of a repository, of an organization, and of the site. Gogs has only the first.

use std::collections::BTreeMap;

use ferrite_api_types::convert::{MissingField, require};
use ferrite_api_types::schema::{Schema, Schemas, words};
use ferrite_proto::hook::{
    self, CreateHookRequest, DeleteHookRequest, GetHookRequest, ListHooksRequest, UpdateHookRequest,
};
use ferrite_proto::operation;
use serde::Serialize;
use serde_json::{Value, json};

use super::deliveries::Delivery;
use super::owner::HookOwnerPath;
use crate::api::call::{Authenticated, operations};
use crate::http::error::ApiResult;
use crate::http::page::WholeList;
use crate::http::path::Params;
use crate::http::request::{
    Flag, Kind, Mistakes, NonEmpty, Optional, OrDefault, Present, RequestBody, Required, Text, TextMap, Texts, Time,
    fields,
};
use crate::http::response::{Created, Json, List, NoContent};
use crate::http::routes::{administrator, organization};

operations! {
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

/// The type of a webhook, validated by the service.
enum HookType {}

impl Kind for HookType {
    type Value = String;

    fn read(name: &str, value: Value, mistakes: &mut Mistakes) -> Option<String> {
        <Text as Kind>::read(name, value, mistakes)
    }

    fn is_empty(value: &Value) -> bool {
        <Text as Kind>::is_empty(value)
    }

    fn schema(_: &mut Schemas) -> Schema {
        words(&["native", "gogs", "gitea", "forgejo", "slack", "discord", "dingtalk", "chat_a", "chat_b", "chat_c"])
    }
}

/// The options of a new webhook. The service requires two of them.
enum NewOptions {}

impl Kind for NewOptions {
    type Value = BTreeMap<String, String>;

    fn read(name: &str, value: Value, mistakes: &mut Mistakes) -> Option<BTreeMap<String, String>> {
        TextMap::read(name, value, mistakes)
    }

    fn schema(schemas: &mut Schemas) -> Schema {
        let mut schema = TextMap::schema(schemas);
        schema["properties"] = json!({
            "url": {"type": "string", "minLength": 1, "examples": ["https://ci.example.com/hook"]},
            "content_type": {"type": "string", "enum": ["json", "form"], "examples": ["json"]},
        });
        schema["required"] = json!(["url", "content_type"]);
        schema
    }
}

fields! {
    /// A new webhook.
    struct NewHook {
        /// The format of deliveries.
        kind as "type": Required<HookType> = "native",
        config: Present<NewOptions> = json!({"url": "https://ci.example.com/hook", "content_type": "json"}),
        events: OrDefault<Texts> = ["push", "issues"],
        /// Whether events are delivered.
        active: OrDefault<Flag> = true,
        /// The branches whose events are sent, as a glob; empty for all.
        branch_filter: OrDefault<Text<255>> = "{main,release/*}",
        /// The header `Authorization` of deliveries.
        authorization_header: OrDefault<Text<4096>> = "Bearer a-token",
    }
}

fields! {
    /// Changes of a webhook.
    struct ChangedHook {
        /// Names of events that replace the current ones. An empty list changes nothing.
        events: NonEmpty<Texts> = ["push"],
        config: OrDefault<TextMap> = json!({"secret": "a new secret"}),
        /// Whether events are delivered.
        active: Optional<Flag> = false,
        drop_previous_secret: OrDefault<Flag> = true,
        /// The branches whose events are sent, as a glob; `*` for all. An empty text changes
        /// nothing.
        branch_filter: NonEmpty<Text<255>> = "main",
        /// The header `Authorization` of deliveries. An empty text changes nothing. A change of the
        /// URL's scheme, host or port removes the header unless it is sent again.
        authorization_header: NonEmpty<Text<4096>> = "Bearer another-token",
        /// Whether the header `Authorization` is no longer sent.
        drop_authorization_header: OrDefault<Flag> = false,
    }
}

ferrite_api_types::shape! {
    /// A webhook. Its secret is omitted. Its URL has `***` in place of the password, and the header
    /// `Authorization` in place of the credentials.
    #[derive(Clone, Debug, Serialize)]
    struct Hook {
        id: i64,
        #[serde(rename = "type")]
        kind: String,
        config: BTreeMap<String, String>,
        events: Vec<String>,
        /// The branches whose events are sent, as a glob; empty for all.
        branch_filter: String,
        /// The header `Authorization` of deliveries; empty for none.
        authorization_header: String,
        active: bool,
        /// Why deliveries are paused; absent if they are not.
        #[serde(skip_serializing_if = "String::is_empty")]
        paused: String,
        updated_at: Time,
        created_at: Time,
    }
}

ferrite_api_types::shape! {
    /// A webhook of a list.
    #[derive(Clone, Debug, Serialize)]
    struct ListedHook {
        #[serde(flatten)]
        hook: Hook,
        /// The newest delivery of the webhook; absent before the first one.
        #[serde(skip_serializing_if = "Option::is_none")]
        last_delivery: Option<Delivery>,
    }
}

impl Hook {
    fn new(hook: hook::Hook) -> Result<Self, MissingField> {
        let mut config: BTreeMap<_, _> = hook.options.into_iter().filter(|(name, _)| name != "secret").collect();
        config.insert("url".into(), hook.url);
        config.insert("content_type".into(), hook.content_type);
        Ok(Self {
            id: hook.id,
            kind: hook.r#type,
            config,
            events: hook.events,
            branch_filter: hook.branch_filter,
            authorization_header: hook.authorization_header,
            active: hook.is_active,
            paused: hook.paused_reason,
            updated_at: Time::new(hook.update_time, "update_time")?,
            created_at: Time::new(hook.create_time, "create_time")?,
        })
    }
}

async fn list(
    Authenticated(call): Authenticated,
    path: HookOwnerPath,
    query: WholeList,
) -> ApiResult<List<ListedHook>> {
    let access = call.hook_access(&path, operation::LIST_HOOKS).await?;
    let request = ListHooksRequest { owner: access.owner(), page: query.page.number, page_size: query.page.size };
    let response = call.clients.hooks().list_hooks(access.request(&call, request)).await?.into_inner();
    let mut last: BTreeMap<_, _> =
        response.last_deliveries.into_iter().map(|delivery| (delivery.hook_id, delivery)).collect();
    let listed = |hook: hook::Hook| -> Result<ListedHook, MissingField> {
        let last_delivery = last.remove(&hook.id).map(Delivery::new).transpose()?;
        Ok(ListedHook { hook: Hook::new(hook)?, last_delivery })
    };
    let hooks = response.hooks.into_iter().map(listed).collect::<Result<Vec<_>, _>>()?;
    Ok(query.list(hooks, response.total_count, &call.links))
}

async fn get(Authenticated(call): Authenticated, path: HookOwnerPath, params: Params) -> ApiResult<Json<Hook>> {
    let access = call.hook_access(&path, operation::GET_HOOK).await?;
    let request = GetHookRequest { owner: access.owner(), hook_id: params.id("id") };
    let response = call.clients.hooks().get_hook(access.request(&call, request)).await?.into_inner();
    Ok(Json(Hook::new(require(response.hook, "hook")?)?))
}

async fn create(
    Authenticated(call): Authenticated,
    path: HookOwnerPath,
    body: RequestBody<NewHook>,
) -> ApiResult<Created<Hook>> {
    let (access, new) = call.hook_body(&path, operation::CREATE_HOOK, body).await?;
    let NewHook { kind, config, events, active, branch_filter, authorization_header } = new;
    let request = CreateHookRequest {
        owner: access.owner(),
        r#type: kind,
        config,
        events,
        is_active: active,
        branch_filter,
        authorization_header,
    };
    let response = call.clients.hooks().create_hook(access.request(&call, request)).await?.into_inner();
    let hook = Hook::new(require(response.hook, "hook")?)?;
    Ok(Created::at(access.hook_url(hook.id), hook))
}

async fn update(
    Authenticated(call): Authenticated,
    path: HookOwnerPath,
    params: Params,
    body: RequestBody<ChangedHook>,
) -> ApiResult<Json<Hook>> {
    let (access, changed) = call.hook_body(&path, operation::UPDATE_HOOK, body).await?;
    // An empty text removes the header.
    let authorization_header = match changed.drop_authorization_header {
        true => Some(String::new()),
        false => changed.authorization_header,
    };
    let request = UpdateHookRequest {
        owner: access.owner(),
        hook_id: params.id("id"),
        config: changed.config,
        has_events: changed.events.is_some(),
        events: changed.events.unwrap_or_default(),
        is_active: changed.active,
        drop_previous_secret: changed.drop_previous_secret,
        branch_filter: changed.branch_filter,
        authorization_header,
    };
    let response = call.clients.hooks().update_hook(access.request(&call, request)).await?.into_inner();
    Ok(Json(Hook::new(require(response.hook, "hook")?)?))
}

async fn remove(Authenticated(call): Authenticated, path: HookOwnerPath, params: Params) -> ApiResult<NoContent> {
    let access = call.hook_access(&path, operation::DELETE_HOOK).await?;
    let request = DeleteHookRequest { owner: access.owner(), hook_id: params.id("id") };
    call.clients.hooks().delete_hook(access.request(&call, request)).await?;
    Ok(NoContent)
}
