//! Contents of repositories: branches, tags, commits, diffs, files and their last commits, objects,
//! languages, archives, and branch protection.
//!
//! Modules from top to bottom: `history` → `contents` and `diffs`; `branches`, `contents`, `data`,
//! `diffs` and `tags` → `commits`; `diffs` and `trees` → `data`; resources → `response`, which
//! `releases` uses too. `pulls` uses `commits`, `diffs` and `response`.

mod archive;
mod branches;
pub(super) mod commits;
mod contents;
mod data;
pub(super) mod diffs;
mod history;
mod protections;
mod raw;
pub(super) mod response;
mod statuses;
mod tags;
mod trees;

use super::call::groups;

groups! { archive branches commits contents data diffs history protections raw statuses tags trees }
