//! Webhooks and their parts. Constructors validate.

mod activity;
mod branch_filter;
mod event;
mod fact_texts;
mod hook;
mod kind;
mod owner;
pub(crate) mod url;

pub(crate) use activity::{Part, activity, part};
pub(crate) use branch_filter::BranchFilter;
pub(crate) use event::{HookEvents, event_type};
pub(crate) use fact_texts::{Subject, outdated_by, remove_deleted_text, texts};
pub(crate) use hook::{ChatOptions, HookChange, NewHook, SecretChange, shown_authorization, standard_webhooks_key};
pub(crate) use kind::{ContentType, Format, HookType};
pub(crate) use owner::Owner;
