//! The content of repositories: branches, commits, files, objects and archives, and the rules that protect branches.
//!
//! Order of the files: `branches`, `contents` and `data` → `commits`; `trees` → `data`; resources → `response`, which `releases` uses
//! as well.

mod archive;
mod branches;
mod commits;
mod contents;
mod data;
mod protections;
mod raw;
pub(super) mod response;
mod trees;

use super::call::groups;

groups! { archive branches commits contents data protections raw trees }
