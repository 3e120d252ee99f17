use std::collections::BTreeMap;

use ferrite_kit::timestamp;
use ferrite_proto::hook;

use crate::model::Hook;

/// Encodes a webhook as a protobuf message, without its secret.
pub(super) fn encode(hook: Hook) -> hook::Hook {
    let options = [
        ("channel", hook.options.channel),
        ("username", hook.options.username),
        ("icon_url", hook.options.icon_url),
        ("color", hook.options.color),
    ];
    let options: BTreeMap<_, _> =
        options.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    hook::Hook {
        id: hook.id.0,
        repository_id: hook.repository.0,
        r#type: hook.kind.as_str().to_owned(),
        url: hook.url,
        content_type: hook.content_type.as_str().to_owned(),
        options,
        events: hook.events.names().map(str::to_owned).collect(),
        is_active: hook.is_active,
        create_time: Some(timestamp(hook.created_us)),
        update_time: Some(timestamp(hook.updated_us)),
    }
}
