//! The permission table: for every operation its name, its requirement on callers, the services
//! that may call it, and whether it is a write. Operations that are not in the table are rejected.
//!
//! The rows of RPCs are generated from the options in their contracts (`ferrite.access.v1.rule`).
//! The rows of other operations are here.

use crate::ServiceRole::Gateway;
use crate::rule::{Capacity, RequiredRole, Rule, Unit};
use crate::{Permission, Scope, ServiceRole};

include!(concat!(env!("OUT_DIR"), "/operation_names.rs"));

/// Fetch or clone.
pub const UPLOAD_PACK: &str = "git/upload-pack";
/// Push.
pub const RECEIVE_PACK: &str = "git/receive-pack";
/// Read a raw file.
pub const RAW: &str = "git/raw";
/// Download a release file.
pub const ASSET: &str = "git/asset";
/// Upload a release file.
pub const UPLOAD_ASSET: &str = "git/upload-asset";
/// Download a tree as a zip or tar file.
pub const ARCHIVE: &str = "git/archive";
/// Read the text of a diff, or patches.
pub const DIFF: &str = "git/diff";
/// Render Markdown, in the gateway.
pub const RENDER_MARKDOWN: &str = "gateway/markdown";
/// Read settings of the site that clients need, in the gateway.
pub const GET_SETTINGS: &str = "gateway/settings";
/// Read the version, in the gateway.
pub const GET_VERSION: &str = "gateway/version";

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// The full name of an RPC, or the name of an HTTP body of git-svc or of an operation in the
    /// gateway.
    pub name: &'static str,
    /// The capacity in which the caller acts.
    pub capacity: Capacity,
    /// The requirement on the caller.
    pub rule: Rule,
    /// A scope that a token needs in addition to that of the rule.
    pub further_scope: Option<Scope>,
    /// True if it changes the content of a repository, and so is rejected on an archived one.
    /// Settings, access, deletion, and a user's stars and watches are not content.
    pub changes_content: bool,
    /// The services that may call it.
    pub callers: &'static [ServiceRole],
    /// True if it is a write.
    pub is_write: bool,
    /// True if clients may retry a failed call.
    pub is_repeatable: bool,
    /// True if it only takes access away, so that the write limit never rejects it.
    pub takes_access_away: bool,
}

impl Operation {
    /// Returns the row of an operation in a capacity.
    #[must_use]
    pub fn find(name: &str, capacity: Capacity) -> Option<&'static Self> {
        Self::rows(name).find(|operation| operation.capacity == capacity)
    }

    /// Returns the first row of an operation, for facts that do not depend on the capacity.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        Self::rows(name).next()
    }

    /// Returns the rows of an operation. Uses a binary search, because every request needs it
    /// several times.
    fn rows(name: &str) -> impl Iterator<Item = &'static Self> {
        let first = OPERATIONS.partition_point(|operation| operation.name < name);
        OPERATIONS[first..].iter().take_while(move |operation| operation.name == name)
    }
}

/// Whether an operation is a write. Unknown RPCs of our packages count as writes.
#[must_use]
pub fn is_write(operation: &str) -> bool {
    Operation::named(operation).map_or(operation.starts_with("ferrite."), |row| row.is_write)
}

/// Whether an operation is on the wiki of a repository, and never on the repository itself.
#[must_use]
pub fn is_of_wiki(operation: &str) -> bool {
    operation.starts_with("ferrite.git.v1.WikiService/")
}

/// Whether clients may retry a failed call of an operation.
#[must_use]
pub fn is_repeatable(operation: &str) -> bool {
    Operation::named(operation).is_some_and(|row| row.is_repeatable)
}

/// Whether an operation only takes access away.
#[must_use]
pub fn takes_access_away(operation: &str) -> bool {
    Operation::named(operation).is_some_and(|row| row.takes_access_away)
}

/// Generated from the contracts.
const RPCS: &[Operation] = &include!(concat!(env!("OUT_DIR"), "/operation_rows.rs"));

/// Operations that are not RPCs: HTTP bodies of git-svc, and operations in the gateway.
const OTHERS: [Operation; 10] = [
    read(RENDER_MARKDOWN, Rule::Anyone),
    read(GET_SETTINGS, Rule::Public),
    read(GET_VERSION, Rule::Public),
    read(ARCHIVE, on_repository(Permission::Read, true)),
    read(ASSET, on_repository(Permission::Read, true)),
    read(DIFF, on_repository(Permission::Read, true)),
    read(RAW, on_repository(Permission::Read, true)),
    write(RECEIVE_PACK),
    write(UPLOAD_ASSET),
    read(UPLOAD_PACK, on_repository(Permission::Read, true)),
];

/// All operations, sorted by name.
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
