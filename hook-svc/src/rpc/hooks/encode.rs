use std::collections::BTreeMap;

use ferrite_kit::timestamp;
use ferrite_proto::hook;

use crate::model::Owner;
use crate::store::StoredHook;

/// Encodes a webhook as a protobuf message, without its secrets. `organization` is the name of its owner, if that is an organization.
pub(super) fn encode(hook: StoredHook, organization: &str) -> hook::Hook {
    let has_secret = hook.has_secret();
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
        repository_id: hook.owner.repository().map_or(0, i64::from),
        organization: organization.to_owned(),
        is_site: hook.owner == Owner::Site,
        r#type: hook.kind.as_str().to_owned(),
        url: hook.shown_url,
        content_type: hook.content_type.as_str().to_owned(),
        options,
        events: hook.events.names().map(str::to_owned).collect(),
        is_active: hook.is_active,
        paused_reason: hook.paused_reason.unwrap_or_default(),
        has_secret,
        create_time: Some(timestamp(hook.created_us)),
        update_time: Some(timestamp(hook.updated_us)),
    }
}
