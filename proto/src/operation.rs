//! The permission table: for every operation its name, what it requires of its caller, which services may call it, and whether it
//! changes something. An operation that is not in the table is refused.
//!
//! The rows of RPCs are generated from the options in their contracts (`ferrite.access.v1.rule`); those of other operations stand here.

use crate::ServiceRole::Gateway;
use crate::rule::{Capacity, RequiredRole, Rule, Unit};
use crate::{Permission, Scope, ServiceRole};

include!(concat!(env!("OUT_DIR"), "/operation_names.rs"));

/// Fetch, by git's own protocol.
pub const UPLOAD_PACK: &str = "git/upload-pack";
/// Push, by git's own protocol.
pub const RECEIVE_PACK: &str = "git/receive-pack";
/// Read a file as it is.
pub const RAW: &str = "git/raw";
/// Read a file of a release.
pub const ASSET: &str = "git/asset";
/// Write a file of a release.
pub const UPLOAD_ASSET: &str = "git/upload-asset";
/// Read a tree as a zip or tar file.
pub const ARCHIVE: &str = "git/archive";
/// Render Markdown, which the gateway does by itself.
pub const RENDER_MARKDOWN: &str = "gateway/markdown";

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
    /// The services that may call it.
    pub callers: &'static [ServiceRole],
    /// True if it changes something for its caller.
    pub is_write: bool,
    /// True if clients may repeat a failed call.
    pub is_repeatable: bool,
    /// True if it takes access away and does nothing else, so that the limit on writes never refuses it.
    pub takes_access_away: bool,
}

impl Operation {
    /// Returns the row of an operation in a capacity.
    #[must_use]
    pub fn find(name: &str, capacity: Capacity) -> Option<&'static Self> {
        Self::rows(name).find(|operation| operation.capacity == capacity)
    }

    /// Returns the first row of an operation, for what does not depend on the capacity.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        Self::rows(name).next()
    }

    /// Returns the rows of an operation. Every request asks several times: the table is searched by halves.
    fn rows(name: &str) -> impl Iterator<Item = &'static Self> {
        let first = OPERATIONS.partition_point(|operation| operation.name < name);
        OPERATIONS[first..].iter().take_while(move |operation| operation.name == name)
    }
}

/// Returns whether an operation changes something for its caller. Unknown RPCs of the contracts' packages count as writes.
#[must_use]
pub fn is_write(operation: &str) -> bool {
    Operation::named(operation).map_or(operation.starts_with("ferrite."), |row| row.is_write)
}

/// Returns whether clients may repeat a failed call of an operation.
#[must_use]
pub fn is_repeatable(operation: &str) -> bool {
    Operation::named(operation).is_some_and(|row| row.is_repeatable)
}

/// Returns whether an operation takes access away and does nothing else.
#[must_use]
pub fn takes_access_away(operation: &str) -> bool {
    Operation::named(operation).is_some_and(|row| row.takes_access_away)
}

/// The rows of the RPCs, generated from the contracts.
const RPCS: &[Operation] = &include!(concat!(env!("OUT_DIR"), "/operation_rows.rs"));

/// The operations that are no RPCs: bodies of git-svc, and the gateway's own work.
const OTHERS: [Operation; 7] = [
    read(RENDER_MARKDOWN, Rule::Anyone),
    read(ARCHIVE, on_repository(Permission::Read, false)),
    read(ASSET, on_repository(Permission::Read, true)),
    read(RAW, on_repository(Permission::Read, false)),
    write(RECEIVE_PACK),
    write(UPLOAD_ASSET),
    read(UPLOAD_PACK, on_repository(Permission::Read, true)),
];

/// All operations, in the order of their names.
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
        callers: &[Gateway],
        is_write: false,
        is_repeatable: false,
        takes_access_away: false,
    }
}

const fn write(name: &'static str) -> Operation {
    Operation { changes_content: true, is_write: true, ..read(name, on_repository(Permission::Write, false)) }
}

#[cfg(test)]
mod tests;
