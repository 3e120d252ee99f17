//! Branches, commits, files and objects of git.

use super::Row;

pub(super) const ROWS: &[Row] = &[
    ("", "branch", "string", "The name of the branch, which may have slashes."),
    ("", "pattern", "string", "The pattern of the rule, which may have slashes."),
    ("GetCommit", "sha", "string", "The id of the commit, or a branch or tag."),
    ("GetTree", "sha", "string", "The id of the tree or of a commit, or a branch or tag."),
    ("GetBlob", "sha", "string", "The id of the blob."),
    ("GetTagObject", "sha", "string", "The id of the annotated tag."),
    ("GetRef", "name", "string", "The name of the ref behind `refs/`, or the beginning of such names."),
    ("GetContents", "file", "string", "The path of the file or directory, which may have slashes."),
    ("GetRawFile", "file", "string", "A revision, then the path of the file; both may have slashes."),
    ("", "file", "string", "The path of the file, which may have slashes."),
    ("", "archive", "string", "The revision, with `.zip` or `.tar.gz` behind it."),
];
