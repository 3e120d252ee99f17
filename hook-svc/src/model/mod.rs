//! Webhooks and their parts, which are checked when they are constructed.

mod event;
mod hook;
mod kind;
mod url;

pub(crate) use event::HookEvents;
pub(crate) use hook::{ChatOptions, Hook, NewHook};
pub(crate) use kind::{ContentType, HookType};
pub(crate) use url::HookUrl;
