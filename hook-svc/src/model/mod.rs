//! Webhooks and their parts, which are checked when they are constructed.

mod event;
mod fact_texts;
mod hook;
mod kind;
mod owner;
mod secret;
pub(crate) mod url;

pub(crate) use event::HookEvents;
pub(crate) use fact_texts::{Subject, outdated_by, remove_deleted_text, subjects};
pub(crate) use hook::{ChatOptions, HookChange, NewHook, SecretChange};
pub(crate) use kind::{ContentType, Format, HookType};
pub(crate) use owner::Owner;
pub(crate) use secret::standard_webhooks_key;
