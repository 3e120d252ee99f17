use std::collections::BTreeMap;

use ferrite_proto::repo;
use serde::Serialize;

use ferrite_api_types::convert::{MissingField, time};

/// An event of the audit log: one change of access, accounts, tokens or settings.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct AuditEvent {
    id: i64,
    time: String,
    actor: Actor,
    token_id: i64,
    action: String,
    target: Target,
    details: BTreeMap<String, String>,
    address: String,
    request_id: String,
}

#[derive(Clone, Debug, Serialize)]
struct Actor {
    id: i64,
    username: String,
}

#[derive(Clone, Debug, Serialize)]
struct Target {
    kind: String,
    id: i64,
    name: String,
}

impl AuditEvent {
    pub(crate) fn new(event: repo::AuditEvent) -> Result<Self, MissingField> {
        Ok(Self {
            id: event.id,
            time: time(event.time, "time")?,
            actor: Actor { id: event.actor_id, username: event.actor },
            token_id: event.token_id,
            action: event.action,
            target: Target { kind: event.target_kind, id: event.target_id, name: event.target },
            details: event.details.into_iter().collect(),
            address: event.address,
            request_id: event.request_id,
        })
    }
}
