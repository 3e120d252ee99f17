use std::collections::BTreeMap;

use ferrite_proto::hook;
use serde::Serialize;

use ferrite_api_types::convert::{MissingField, time};

/// A webhook. Its secret is never part of it, and `***` stands for the password in its URL.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Hook {
    id: i64,
    #[serde(rename = "type")]
    kind: String,
    config: BTreeMap<String, String>,
    events: Vec<String>,
    active: bool,
    /// The reason for which deliveries wait; absent if they do not.
    #[serde(skip_serializing_if = "String::is_empty")]
    paused: String,
    updated_at: String,
    created_at: String,
}

impl Hook {
    pub(crate) fn new(hook: hook::Hook) -> Result<Self, MissingField> {
        let mut config: BTreeMap<_, _> = hook.options.into_iter().filter(|(name, _)| name != "secret").collect();
        config.insert("url".into(), hook.url);
        config.insert("content_type".into(), hook.content_type);
        Ok(Self {
            id: hook.id,
            kind: hook.r#type,
            config,
            events: hook.events,
            active: hook.is_active,
            paused: hook.paused_reason,
            updated_at: time(hook.update_time, "update_time")?,
            created_at: time(hook.create_time, "create_time")?,
        })
    }
}
