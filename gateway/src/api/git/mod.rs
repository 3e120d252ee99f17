//! Contents of repositories: branches, commits, diffs, files, objects, archives, and branch
//! protection.
//!
//! Modules from top to bottom: `branches`, `contents`, `data` and `diffs` → `commits`; `diffs` and
//! `trees` → `data`; resources → `response`, which `releases` uses too.

mod archive;
mod branches;
mod commits;
mod contents;
mod data;
mod diffs;
mod protections;
mod raw;
pub(super) mod response;
mod statuses;
mod trees;

use super::call::groups;

groups! { archive branches commits contents data diffs protections raw statuses trees }
