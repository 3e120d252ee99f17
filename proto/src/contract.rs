//! The table of operations, generated from the contracts: their names, who may call them, and which change something.

use crate::operation::{ARCHIVE, ASSET, RAW, RECEIVE_PACK, RENDER_MARKDOWN, UPLOAD_ASSET, UPLOAD_PACK};
use crate::rule::{Capacity, RequiredRole, Rule, Unit};
use crate::{Permission, Scope, ServiceRole};

include!(concat!(env!("OUT_DIR"), "/operation_names.rs"));

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// The full name of an RPC, the name of one of git-svc's HTTP bodies, or that of an operation that the gateway does by itself.
    pub name: &'static str,
    /// The capacity in which the caller acts.
    pub capacity: Capacity,
    /// The requirement on the caller.
    pub rule: Rule,
    /// A scope that a token needs beside the one of the rule.
    pub further_scope: Option<Scope>,
    /// True if it changes what is in a repository, so that it is refused on an archived one. Settings, access and deletion are not
    /// among these, nor is what a user keeps of a repository for itself.
    pub changes_content: bool,
    /// The roles that may call it with the token of their role.
    pub callers: &'static [ServiceRole],
    /// True if it changes something for its caller.
    pub is_write: bool,
    /// True if clients may repeat a failed call.
    pub is_repeatable: bool,
}

/// What the contracts say.
const RPCS: &[Operation] = &include!(concat!(env!("OUT_DIR"), "/operation_rows.rs"));

/// The operations that are no RPCs: bodies of git-svc, and the gateway's own work.
const OTHERS: [Operation; 7] = [
    read(UPLOAD_PACK, on_repository(Permission::Read, true)),
    write(RECEIVE_PACK),
    read(RAW, on_repository(Permission::Read, false)),
    read(ASSET, on_repository(Permission::Read, true)),
    write(UPLOAD_ASSET),
    read(ARCHIVE, on_repository(Permission::Read, false)),
    read(RENDER_MARKDOWN, Rule::Anyone),
];

/// All operations.
pub const OPERATIONS: &[Operation] = &ALL;

const ALL: [Operation; RPCS.len() + OTHERS.len()] = {
    let mut all = [OTHERS[0]; RPCS.len() + OTHERS.len()];
    all.split_at_mut(RPCS.len()).0.copy_from_slice(RPCS);
    all.split_at_mut(RPCS.len()).1.copy_from_slice(&OTHERS);
    all
};

const fn on_repository(level: Permission, anonymous: bool) -> Rule {
    Rule::Repository { unit: Unit::Repository, level, anonymous }
}

const fn read(name: &'static str, rule: Rule) -> Operation {
    Operation {
        name,
        capacity: Capacity::Own,
        rule,
        further_scope: None,
        changes_content: false,
        callers: &[ServiceRole::Gateway],
        is_write: false,
        is_repeatable: false,
    }
}

const fn write(name: &'static str) -> Operation {
    Operation { changes_content: true, is_write: true, ..read(name, on_repository(Permission::Write, false)) }
}
