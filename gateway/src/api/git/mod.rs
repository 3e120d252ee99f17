//! Contents of repositories: branches, commits, files, objects, archives, and branch protection.
//!
//! Modules from top to bottom: `branches`, `contents` and `data` → `commits`; `trees` → `data`;
//! resources → `response`, which `releases` uses too.

mod archive;
mod branches;
mod commits;
mod contents;
mod data;
mod protections;
mod raw;
pub(super) mod response;
mod statuses;
mod trees;

use super::call::groups;

groups! { archive branches commits contents data protections raw statuses trees }
