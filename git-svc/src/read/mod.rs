//! Reads of repositories, for code that runs on the pool. Plain structs; no messages of any protocol.

pub mod commit;
pub mod contents;
pub mod raw;
pub mod submodule;

pub use self::{
    commit::{BranchInfo, BranchPage, CommitInfo, Person, branch, branches, commit, commit_info},
    contents::{Contents, Entry, EntryKind, Target, contents},
    raw::{RawFile, raw},
};

#[cfg(test)]
mod tests;
