//! Payloads of webhooks. The native payload of an event is rendered once ([`native`]). A delivery
//! sends it as it is or converts it into a chat message ([`chat`]).
//!
//! [`limits`] bounds the sizes, and [`redact`] removes texts that were edited or deleted later. All
//! functions are pure; callers look up accounts, repositories and commits first.

mod chat;
mod json;
pub(crate) mod limits;
pub(crate) mod native;
pub(crate) mod redact;

use std::borrow::Cow;

use ferrite_api_types::convert::MissingField;
use serde::Deserialize;

pub(crate) use json::json_text;

use crate::model::{ChatOptions, Format, event_type};

#[derive(Debug, thiserror::Error)]
pub(crate) enum PayloadError {
    /// A message from another service lacks a field.
    #[error(transparent)]
    Missing(#[from] MissingField),
    /// The stored payload is not what this version writes.
    #[error("invalid payload")]
    Json(#[from] serde_json::Error),
    #[error("unknown event `{0}`")]
    UnknownEvent(String),
}

/// The parts of a payload that its event type depends on.
#[derive(Deserialize)]
struct TypedPayload<'a> {
    #[serde(borrow, default)]
    action: Cow<'a, str>,
    #[serde(default)]
    is_pull: bool,
}

/// Returns the type of the event `name` with this native payload, which may be finer than the name.
pub(crate) fn event_type_of<'a>(name: &'a str, payload: &str) -> &'a str {
    // Other payloads, which may be long, need not be read.
    if !matches!(name, "issues" | "pull_request" | "issue_comment") {
        return event_type(name, "", false);
    }
    let typed = serde_json::from_str::<TypedPayload<'_>>(payload);
    typed.map_or(name, |typed| event_type(name, &typed.action, typed.is_pull))
}

/// Returns the JSON text of a delivery, which is also what signatures sign. `payload` is the native
/// payload of the event `name`.
pub(crate) fn delivery_text(
    format: Format,
    options: &ChatOptions,
    name: &str,
    payload: &str,
) -> Result<String, PayloadError> {
    let message = match format {
        Format::Native => return Ok(json_text(payload)),
        Format::Slack => chat::slack::render(&chat::ChatEvent::parse(name, payload)?, options)?,
        Format::Discord => chat::discord::render(&chat::ChatEvent::parse(name, payload)?, options)?,
        Format::Dingtalk => chat::dingtalk::render(&chat::ChatEvent::parse(name, payload)?)?,
    };
    Ok(json_text(&message))
}
