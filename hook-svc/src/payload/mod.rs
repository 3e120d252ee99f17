//! Payloads of webhooks. The native payload of an event is made once ([`native`]); a delivery sends it as it is, or as a message of a
//! chat service that is made of it ([`chat`]).
//!
//! Sizes are bounded in [`limits`]; texts that were changed or deleted later are taken out by [`redact`]. All functions are pure: accounts, repositories and commits were looked up before.
//!
//! Not here: signatures, headers and the form encoding (`sender`), and lookups (`dispatch`).

mod chat;
mod json;
pub(crate) mod limits;
pub(crate) mod native;
pub(crate) mod redact;

use ferrite_api_types::convert::MissingField;

pub(crate) use json::json_text;

use crate::model::{ChatOptions, Format};

/// The error of a payload that cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PayloadError {
    /// A message of another service lacks a field.
    #[error(transparent)]
    Missing(#[from] MissingField),
    /// The stored payload is not what this version writes.
    #[error("invalid payload")]
    Json(#[from] serde_json::Error),
    /// No payload has this name.
    #[error("unknown event `{0}`")]
    UnknownEvent(String),
}

/// Returns the JSON text of a delivery, which the body has and signatures sign. `payload` is the native payload of the event `name`.
///
/// # Errors
/// When the payload is not one of this event.
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
