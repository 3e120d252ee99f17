//! Contents of repositories: branches, tags, commits, diffs, files and their last commits, objects,
//! languages, archives, branch protection, and wikis.
//!
//! Modules from top to bottom: `history` → `contents` and `diffs`; `branches`, `contents`, `data`,
//! `diffs`, `tags` and `wikis` → `commits`; `diffs` and `trees` → `data`; resources → `response`, which
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
mod wikis;

use super::call::groups;

groups! { archive branches commits contents data diffs history protections raw statuses tags trees wikis }
