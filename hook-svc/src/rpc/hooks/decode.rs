//! Decoding of the options of a request into a checked webhook or a change of one. Violations name their fields as the REST body does.
//!
//! Not here: the rules of single values (`model`).

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use ferrite_kit::Secret;
use ferrite_kit::text::check_line;
use ferrite_outbound::{OutboundUrl, Policy};
use ferrite_proto::error::FieldViolation;
use ferrite_proto::hook::{CreateHookRequest, UpdateHookRequest};

use crate::error::HookError;
use crate::model::{
    ChatOptions, ContentType, Format, HookChange, HookEvents, HookType, NewHook, Owner, SecretChange,
    standard_webhooks_key, url,
};
use crate::store::StoredHook;

const MAX_OPTION_CHARS: usize = 255;
const MAX_ICON_URL_CHARS: usize = 2048;

/// The options of one request, and the violations found so far.
struct OptionDecoder {
    values: BTreeMap<String, String>,
    violations: Vec<FieldViolation>,
}

/// Checks the options of a new webhook.
///
/// # Errors
/// [`HookError::Invalid`] with all violations.
pub(super) fn new_hook(request: CreateHookRequest, owner: Owner, policy: &Policy) -> Result<NewHook, HookError> {
    let mut decoder = OptionDecoder { values: request.config, violations: Vec::new() };
    let kind = decoder.take(HookType::parse(&request.r#type));
    let url = decoder.take(url::parse(decoder.get("url").unwrap_or_default(), policy));
    let content_type = decoder.take(ContentType::parse(decoder.get("content_type").unwrap_or_default()));
    let secret = decoder.secret();
    let options = kind.map(|kind| decoder.chat_options(kind, Presence::Filled)).unwrap_or_default();
    let events = decoder.take(HookEvents::parse(&request.events));
    match (kind, url, content_type, events) {
        (Some(kind), Some(url), Some(content_type), Some(events)) if decoder.violations.is_empty() => {
            Ok(NewHook { owner, kind, url, content_type, secret, options, events, is_active: request.is_active })
        }
        _ => Err(HookError::Invalid(decoder.violations)),
    }
}

/// Checks a change of `hook`.
///
/// # Errors
/// [`HookError::Invalid`] with all violations.
pub(super) fn change(request: UpdateHookRequest, hook: &StoredHook, policy: &Policy) -> Result<HookChange, HookError> {
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
        is_active: request.is_active,
    };
    if decoder.violations.is_empty() { Ok(change) } else { Err(HookError::Invalid(decoder.violations)) }
}

/// The value of an option that the request does not have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    /// The empty text.
    Filled,
    /// `None`.
    AsSent,
}

impl OptionDecoder {
    /// Returns an option.
    fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Returns the checked value, or notes its violation and returns `None`.
    fn take<T>(&mut self, checked: Result<T, FieldViolation>) -> Option<T> {
        checked.map_err(|violation| self.violations.push(violation)).ok()
    }

    /// Returns the new URL of a webhook. The URL as it is shown, whose password is hidden, leaves it as it is.
    fn changed_url(&mut self, hook: &StoredHook, policy: &Policy) -> Option<OutboundUrl> {
        let text = self.get("url").filter(|text| *text != hook.shown_url)?;
        let checked = url::parse(text, policy);
        self.take(checked)
    }

    /// Returns the secret, if there is one.
    fn secret(&mut self) -> Option<Secret> {
        let secret = self.text("secret", "config.secret", MAX_OPTION_CHARS)?;
        if standard_webhooks_key(&secret).is_none() {
            let message = "must be base64 after `whsec_`";
            self.violations.push(FieldViolation::new("config.secret", "invalid", message));
        }
        (!secret.is_empty()).then(|| Secret::new(secret))
    }

    /// Returns an option after a check of its length and characters.
    fn text(&mut self, name: &str, field: &str, max_chars: usize) -> Option<String> {
        let text = self.get(name)?.to_owned();
        if text.contains('\0') {
            self.violations.push(FieldViolation::new(field, "invalid", "must not contain NUL"));
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

    /// Returns the display options that hooks of this type have.
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
            let message = format!("is required for {}", kind.as_str());
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
