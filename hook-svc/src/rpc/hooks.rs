//! The RPCs of webhooks and the decoding of their options. Violations use the field names of the
//! REST body.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use ferrite_core::page::Page;
use ferrite_core::sealing::{SealError, Sealer};
use ferrite_core::text::check_line;
use ferrite_core::{Secret, timestamp};
use ferrite_db::idempotency::{IdempotencyKey, once, once_or_rebuild};
use ferrite_listener::service;
use ferrite_outbound::{OutboundUrl, Policy};
use ferrite_proto::error::FieldViolation;
use ferrite_proto::events::HookAction;
use ferrite_proto::hook::hook_service_server::HookService;
use ferrite_proto::hook::*;
use ferrite_proto::id::HookId;
use ferrite_rpc::rate_limit::RateExceeded;
use ferrite_rpc::version;
use prost::Message;
use tonic::Request;

use super::deliveries::encode_delivery;
use crate::error::HookError;
use crate::model::{
    BranchFilter, ChatOptions, ContentType, Format, HookChange, HookEvents, HookType, NewHook, Owner, SecretChange,
    standard_webhooks_key, url,
};
use crate::state::AppState;
use crate::store::{StoredHook, deliveries, queues};

const MAX_PAGE_SIZE: i32 = 1000;
/// How long a replaced secret keeps signing along with the new one.
const PREVIOUS_SECRET_US: i64 = 24 * 3600 * 1_000_000;
/// Options that contain secrets.
const SECRET_OPTIONS: [&str; 2] = ["url", "secret"];
const MAX_OPTION_CHARS: usize = 255;
const MAX_ICON_URL_CHARS: usize = 2048;
const MAX_AUTHORIZATION_CHARS: usize = 4096;

service!(HookService for AppState {
    create_hook(CreateHookRequest) -> CreateHookResponse;
    list_hooks(ListHooksRequest) -> ListHooksResponse;
    get_hook(GetHookRequest) -> GetHookResponse;
    update_hook(UpdateHookRequest) -> UpdateHookResponse;
    delete_hook(DeleteHookRequest) -> DeleteHookResponse;
});

async fn create_hook(state: &AppState, request: Request<CreateHookRequest>) -> Result<CreateHookResponse, HookError> {
    let access = state.authorize_owner(&request, request.get_ref().owner.as_ref()).await?;
    let sealer = state.store.sealer();
    let key = IdempotencyKey::of_redacted(&request, access.user.0, "CreateHook", sealer, |request, hide| {
        hide_options(&mut request.config, hide);
        if !request.authorization_header.is_empty() {
            request.authorization_header = hide(&request.authorization_header);
        }
    })?;
    let request = request.into_inner();
    let (owner, organization) = (access.owner, access.organization.as_str());
    let register = async {
        let new = decode_new(request, access.owner, &state.policy)?;
        let counted = state.creations.count(access.user.0, 1, access.rate_percent).await;
        counted.map_err(|RateExceeded { limit, retry_after, .. }| HookError::HourlyLimit {
            what: "webhooks",
            limit,
            retry_after,
        })?;
        let now_us = state.clock.now_us();
        let mut tx = state.store.db().begin().await?;
        let hook = state.store.insert(&mut tx, &new, state.owner_limit, now_us).await?;
        let event = access.audit.record(&mut tx, sealer, &hook, HookAction::Created, now_us).await?;
        let (id, response) = (hook.id.0, CreateHookResponse { hook: Some(encode(hook, organization)) });
        state.commit_with_subject(tx, Some(event), key.as_ref(), response, id, now_us).await
    };
    let rebuild = |id: i64| async move {
        let hook = state.store.find(owner, HookId(id)).await?;
        Ok(CreateHookResponse { hook: Some(encode(hook, organization)) })
    };
    once_or_rebuild(state.store.db(), key.as_ref(), rebuild, register).await
}

async fn list_hooks(state: &AppState, request: Request<ListHooksRequest>) -> Result<ListHooksResponse, HookError> {
    let access = state.authorize_owner(&request, request.get_ref().owner.as_ref()).await?;
    let request = request.into_inner();
    let page = Page::parse(request.page, request.page_size, MAX_PAGE_SIZE).map_err(HookError::Invalid)?;
    let (hooks, total_count) = state.store.list(access.owner, page).await?;
    let last_deliveries = deliveries::newest(state.store.db(), hooks.iter().map(|hook| hook.id)).await?;
    let last_deliveries = last_deliveries.into_iter().map(encode_delivery).collect::<Result<_, _>>()?;
    let hooks = hooks.into_iter().map(|hook| encode(hook, &access.organization)).collect();
    Ok(ListHooksResponse { hooks, total_count, last_deliveries })
}

async fn get_hook(state: &AppState, request: Request<GetHookRequest>) -> Result<GetHookResponse, HookError> {
    let access = state.authorize_owner(&request, request.get_ref().owner.as_ref()).await?;
    let hook = state.store.find(access.owner, HookId(request.get_ref().hook_id)).await?;
    version::tell(&versioned(&hook, &access.organization));
    Ok(GetHookResponse { hook: Some(encode(hook, &access.organization)) })
}

/// Applies a change. A change without effect is neither written nor logged for audit.
async fn update_hook(state: &AppState, request: Request<UpdateHookRequest>) -> Result<UpdateHookResponse, HookError> {
    let access = state.authorize_owner(&request, request.get_ref().owner.as_ref()).await?;
    let sealer = state.store.sealer();
    let key = IdempotencyKey::of_redacted(&request, access.user.0, "UpdateHook", sealer, |request, hide| {
        hide_options(&mut request.config, hide);
        request.authorization_header = request.authorization_header.as_deref().map(hide);
    })?;
    let request = request.into_inner();
    let (owner, organization) = (access.owner, access.organization.as_str());
    let update = async {
        let mut tx = state.store.db().begin().await?;
        let before = state.store.lock(&mut tx, access.owner, HookId(request.hook_id)).await?;
        let change = decode_change(request, &before, &state.policy)?;
        tx.require_version(Some(&versioned(&before, organization)))?;
        let now_us = state.clock.now_us();
        let mut hook = before.clone();
        apply(change, &mut hook, sealer, now_us)?;
        let mut event = None;
        if hook != before {
            hook.failing_since_us = None;
            hook.updated_us = now_us;
            state.store.update(&mut tx, &hook).await?;
            if hook.is_active && !before.is_active {
                state.store.begin_at(&mut tx, hook.id, now_us).await?;
            }
            // The opposite needs nothing: the sender parks the due queues of a hook that does not
            // run.
            if hook.is_running() && !before.is_running() {
                queues::resume(&mut tx, hook.id, now_us).await?;
            }
            event = Some(access.audit.record(&mut tx, sealer, &hook, HookAction::Updated, now_us).await?);
        }
        let (id, response) = (hook.id.0, UpdateHookResponse { hook: Some(encode(hook, organization)) });
        let response = state.commit_with_subject(tx, event, key.as_ref(), response, id, now_us).await?;
        state.sender.wake();
        Ok(response)
    };
    let rebuild = |id: i64| async move {
        let hook = state.store.find(owner, HookId(id)).await?;
        Ok(UpdateHookResponse { hook: Some(encode(hook, organization)) })
    };
    once_or_rebuild(state.store.db(), key.as_ref(), rebuild, update).await
}

fn apply(change: HookChange, hook: &mut StoredHook, sealer: &Sealer, now_us: i64) -> Result<(), SealError> {
    hook.paused_reason = None;
    let mut authorization = change.authorization;
    if let Some(url) = change.url {
        let old = hook.url(sealer)?;
        // Credentials stay with the host they were given for: whoever changes the URL need not know
        // them.
        if authorization == SecretChange::Keep && !url::have_same_origin(old.expose(), url.expose()) {
            authorization = SecretChange::Remove;
        }
        if old.expose() != url.expose() {
            hook.set_url(sealer, url.expose(), url.shown())?;
        }
    }
    match change.secret {
        SecretChange::Keep => {}
        SecretChange::Remove => hook.remove_secret(),
        SecretChange::Set(secret) => {
            if hook.secret(sealer)?.as_ref() != Some(&secret) {
                hook.set_secret(sealer, &secret, now_us + PREVIOUS_SECRET_US)?;
            }
        }
    }
    if change.drops_previous_secret {
        hook.drop_previous_secret();
    }
    hook.content_type = change.content_type.unwrap_or(hook.content_type);
    hook.options.merge(change.options);
    hook.events = change.events.unwrap_or(hook.events);
    if let Some(filter) = change.branch_filter {
        hook.branch_filter = filter;
    }
    match authorization {
        SecretChange::Keep => {}
        SecretChange::Remove => hook.remove_authorization(),
        SecretChange::Set(value) => {
            if hook.authorization(sealer)?.as_ref() != Some(&value) {
                hook.set_authorization(sealer, &value)?;
            }
        }
    }
    hook.is_active = change.is_active.unwrap_or(hook.is_active);
    Ok(())
}

async fn delete_hook(state: &AppState, request: Request<DeleteHookRequest>) -> Result<DeleteHookResponse, HookError> {
    let access = state.authorize_owner(&request, request.get_ref().owner.as_ref()).await?;
    let key = IdempotencyKey::of(&request, access.user.0, "DeleteHook")?;
    let id = HookId(request.get_ref().hook_id);
    let (owner, organization) = (access.owner, access.organization.as_str());
    let delete = async {
        let now_us = state.clock.now_us();
        let mut tx = state.store.db().begin().await?;
        let hook = state.store.delete(&mut tx, owner, id, now_us).await?;
        tx.require_version(Some(&versioned(&hook, organization)))?;
        let sealer = state.store.sealer();
        let event = access.audit.record(&mut tx, sealer, &hook, HookAction::Deleted, now_us).await?;
        state.commit(tx, Some(event), key.as_ref(), DeleteHookResponse {}, now_us).await
    };
    once(state.store.db(), key.as_ref(), delete).await
}

/// Replaces the secrets in options by what `hide` makes of them.
fn hide_options(options: &mut BTreeMap<String, String>, hide: &dyn Fn(&str) -> String) {
    for name in SECRET_OPTIONS {
        if let Some(value) = options.get_mut(name) {
            *value = hide(value);
        }
    }
}

/// Input of a webhook's version: the response of a read, plus the sealed URL and secrets, which a
/// read does not show.
#[derive(Clone, PartialEq, Message)]
struct VersionedHook {
    #[prost(message, optional, tag = "1")]
    hook: Option<Hook>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    sealed_parts: Vec<Vec<u8>>,
}

fn versioned(hook: &StoredHook, organization: &str) -> VersionedHook {
    let sealed_parts = hook.sealed_parts().into_iter().map(<[u8]>::to_vec).collect();
    VersionedHook { hook: Some(encode(hook.clone(), organization)), sealed_parts }
}

/// Encodes a webhook without its secrets. `organization` is the name of the owner, if it is an
/// organization.
fn encode(hook: StoredHook, organization: &str) -> Hook {
    let has_secret = hook.has_secret();
    let options = [
        ("channel", hook.options.channel),
        ("username", hook.options.username),
        ("icon_url", hook.options.icon_url),
        ("color", hook.options.color),
    ];
    let options: BTreeMap<_, _> =
        options.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    Hook {
        id: hook.id.0,
        repository_id: hook.owner.repository().map_or(0, i64::from),
        organization: organization.to_owned(),
        is_site: hook.owner == Owner::Site,
        r#type: hook.kind.as_str().to_owned(),
        url: hook.shown_url,
        content_type: hook.content_type.as_str().to_owned(),
        options,
        events: hook.events.names().map(str::to_owned).collect(),
        branch_filter: hook.branch_filter.as_str().to_owned(),
        authorization_header: hook.shown_authorization,
        is_active: hook.is_active,
        paused_reason: hook.paused_reason.unwrap_or_default(),
        has_secret,
        create_time: Some(timestamp(hook.created_us)),
        update_time: Some(timestamp(hook.updated_us)),
    }
}

/// Validates the options of a new webhook. Reports all violations.
fn decode_new(request: CreateHookRequest, owner: Owner, policy: &Policy) -> Result<NewHook, HookError> {
    let mut decoder = OptionDecoder { values: request.config, violations: Vec::new() };
    let kind = decoder.take(HookType::parse(&request.r#type));
    let url = decoder.take(url::parse(decoder.get("url").unwrap_or_default(), policy));
    let content_type = decoder.take(ContentType::parse(decoder.get("content_type").unwrap_or_default()));
    let secret = decoder.secret();
    let options = kind.map(|kind| decoder.chat_options(kind, Presence::Filled)).unwrap_or_default();
    let events = decoder.take(HookEvents::parse(&request.events));
    let branch_filter = decoder.take(BranchFilter::parse(&request.branch_filter));
    let authorization = match request.authorization_header.as_str() {
        "" => None,
        value => decoder.authorization(value),
    };
    match (kind, url, content_type, events, branch_filter) {
        (Some(kind), Some(url), Some(content_type), Some(events), Some(branch_filter))
            if decoder.violations.is_empty() =>
        {
            let is_active = request.is_active;
            let new = NewHook {
                owner,
                kind,
                url,
                content_type,
                secret,
                options,
                events,
                branch_filter,
                authorization,
                is_active,
            };
            Ok(new)
        }
        _ => Err(HookError::Invalid(decoder.violations)),
    }
}

/// Validates a change of `hook`. Reports all violations.
fn decode_change(request: UpdateHookRequest, hook: &StoredHook, policy: &Policy) -> Result<HookChange, HookError> {
    let mut decoder = OptionDecoder { values: request.config, violations: Vec::new() };
    let change = HookChange {
        url: decoder.changed_url(hook, policy),
        content_type: decoder
            .get("content_type")
            .map(ContentType::parse)
            .and_then(|content_type| decoder.take(content_type)),
        secret: match decoder.get("secret") {
            None => SecretChange::Keep,
            Some("") => SecretChange::Remove,
            Some(_) => decoder.secret().map_or(SecretChange::Keep, SecretChange::Set),
        },
        drops_previous_secret: request.drop_previous_secret,
        options: decoder.chat_options(hook.kind, Presence::AsSent),
        events: if request.has_events { decoder.take(HookEvents::parse(&request.events)) } else { None },
        branch_filter: request
            .branch_filter
            .map(|filter| BranchFilter::parse(&filter))
            .and_then(|filter| decoder.take(filter)),
        // Sending back the shown value, with its hidden credentials, changes nothing.
        authorization: match request.authorization_header.as_deref() {
            None => SecretChange::Keep,
            Some("") => SecretChange::Remove,
            Some(shown) if shown == hook.shown_authorization => SecretChange::Keep,
            Some(value) => decoder.authorization(value).map_or(SecretChange::Keep, SecretChange::Set),
        },
        is_active: request.is_active,
    };
    if decoder.violations.is_empty() { Ok(change) } else { Err(HookError::Invalid(decoder.violations)) }
}

/// The options of one request and the violations found so far.
struct OptionDecoder {
    values: BTreeMap<String, String>,
    violations: Vec<FieldViolation>,
}

/// How to represent options that the request omits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    /// As an empty text.
    Filled,
    /// As `None`.
    AsSent,
}

impl OptionDecoder {
    fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Unwraps a checked value. Collects a violation and returns `None`.
    fn take<T>(&mut self, checked: Result<T, FieldViolation>) -> Option<T> {
        checked.map_err(|violation| self.violations.push(violation)).ok()
    }

    /// Returns the new URL. Sending back the shown URL, with its hidden password, changes nothing.
    fn changed_url(&mut self, hook: &StoredHook, policy: &Policy) -> Option<OutboundUrl> {
        let text = self.get("url").filter(|text| *text != hook.shown_url)?;
        let checked = url::parse(text, policy);
        self.take(checked)
    }

    fn secret(&mut self) -> Option<Secret> {
        let secret = self.text("secret", "config.secret", MAX_OPTION_CHARS)?;
        if standard_webhooks_key(&secret).is_none() {
            let message = "must be valid base64 after the prefix `whsec_`";
            self.violations.push(FieldViolation::new("config.secret", "invalid", message));
        }
        (!secret.is_empty()).then(|| Secret::new(secret))
    }

    /// Checks a value of the header `Authorization`.
    fn authorization(&mut self, value: &str) -> Option<Secret> {
        let mut refuse = |code, message: &str| {
            self.violations.push(FieldViolation::new("authorization_header", code, message));
            None
        };
        if value.len() > MAX_AUTHORIZATION_CHARS {
            return refuse("too_long", "must have at most 4,096 characters");
        }
        let is_valid = value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) && value.trim() == value;
        if is_valid { Some(Secret::new(value)) } else { refuse("invalid", "must be ASCII without surrounding blanks") }
    }

    /// Returns an option after checking its length and characters.
    fn text(&mut self, name: &str, field: &str, max_chars: usize) -> Option<String> {
        let text = self.get(name)?.to_owned();
        if text.contains('\0') {
            self.violations.push(FieldViolation::new(field, "invalid", "must not contain NUL characters"));
        } else if name != "secret"
            && let Err(violation) = check_line(&text, field)
        {
            self.violations.push(violation);
        } else if text.chars().nth(max_chars).is_some() {
            let message = format!("must have at most {max_chars} characters");
            self.violations.push(FieldViolation::new(field, "too_long", message));
        }
        Some(text)
    }

    /// Returns the display options that this type supports.
    fn chat_options(&mut self, kind: HookType, presence: Presence) -> ChatOptions {
        let has_channel = match kind.format() {
            Format::Native | Format::Dingtalk => return ChatOptions::default(),
            Format::Slack => true,
            Format::Discord => false,
        };
        let is_blank = |channel: Option<&str>| match channel {
            Some(channel) => channel.trim().is_empty(),
            None => presence == Presence::Filled,
        };
        if has_channel && is_blank(self.get("channel")) {
            let message = format!("is required for webhooks of type `{}`", kind.as_str());
            self.violations.push(FieldViolation::new("config.channel", "required", message));
        }
        let mut option = |name, field, max_chars| {
            let text = self.text(name, field, max_chars);
            if presence == Presence::Filled { Some(text.unwrap_or_default()) } else { text }
        };
        ChatOptions {
            channel: if has_channel { option("channel", "config.channel", MAX_OPTION_CHARS) } else { None },
            username: option("username", "config.username", MAX_OPTION_CHARS),
            icon_url: option("icon_url", "config.icon_url", MAX_ICON_URL_CHARS),
            color: option("color", "config.color", MAX_OPTION_CHARS),
        }
    }
}
