use ferrite_proto::git;
use serde::Serialize;

use ferrite_api_types::Accounts;
use ferrite_api_types::convert::{MissingField, time};
use ferrite_api_types::links::Links;

/// A rule about branches.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Protection {
    pattern: String,
    allow_force: bool,
    allow_delete: bool,
    push_users: Vec<String>,
    created_at: String,
}

impl Protection {
    pub(crate) fn new(rule: git::Protection, accounts: &Accounts, links: &Links) -> Result<Self, MissingField> {
        // A deleted account stays in the list as `ghost`: an empty list would allow pushes of all writers.
        let name = |id: i64| accounts.by_id(id, links).username;
        Ok(Self {
            pattern: rule.pattern,
            allow_force: rule.allow_force,
            allow_delete: rule.allow_delete,
            push_users: rule.push_user_ids.into_iter().map(name).collect(),
            created_at: time(rule.created_time, "created_time")?,
        })
    }
}
