//! Reads of repositories as plain structs, for jobs of the pool.

pub mod blame;
mod branches;
mod changes;
pub mod commit;
pub mod commit_list;
pub mod commit_paths;
mod commit_summary;
pub mod contents;
pub mod deadline;
pub mod describe;
pub mod diff;
pub mod entry;
pub mod languages;
pub mod lines;
pub mod log;
pub mod object;
mod path_logs;
pub mod pushed;
pub mod raw;
pub mod submodule;
mod trail;
pub mod tree;
pub mod tree_commits;
pub mod wiki;

pub use self::path_logs::{PathLogCache, PathLogKey};
pub use self::{
    branches::{BranchInfo, branch, branches},
    changes::ChangedPaths,
    commit::{CommitInfo, Signature, commit, commit_info},
    commit_summary::CommitSummary,
    contents::{Contents, Entry, Target, contents},
    deadline::Deadline,
    describe::{
        DescribedCommit, DescribedRef, DescriptionLimits, DescriptionRequest, Descriptions, HeadDescription, Person,
        UpdateDescription, describe,
    },
    entry::EntryKind,
    languages::{LanguageCounts, languages},
    log::{LogPage, log, log_of_path},
    object::{TagInfo, TagObject, blob, listed_reference, reference, tag, tag_object, tag_refs, tags},
    pushed::{MAX_PUSHED_COMMITS, PushedCommit, pushed_commits},
    raw::{RawFile, raw, raw_at},
    tree::{TreeListing, tree},
};

#[cfg(test)]
mod tests;
