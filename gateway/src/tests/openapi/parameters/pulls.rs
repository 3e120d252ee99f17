use super::Row;

const NUMBER: &str = "The number of the pull request in its repository.";

pub(super) const ROWS: &[Row] = &[
    (
        "GetPull",
        "index",
        "string",
        "The number of the pull request, followed by `.diff` or `.patch` for the changes as text.",
    ),
    ("GetPullFiles", "index", "integer", NUMBER),
    ("GetPullCommits", "index", "integer", NUMBER),
    ("GetPullIsMerged", "index", "integer", NUMBER),
    ("UpdatePull", "index", "integer", NUMBER),
    ("GetPullByBranches", "base", "string", "The target branch. Slashes are written as `%2F`."),
    (
        "GetPullByBranches",
        "head",
        "string",
        "The branch of the head, `owner:branch` or `owner/repo:branch`. It can contain slashes. A branch with the name of \
         another path of pull requests, such as `files`, needs its owner.",
    ),
    ("GetPullByCommit", "sha", "string", "The id of the commit."),
    ("MergePull", "index", "integer", NUMBER),
    ("UpdatePullHead", "index", "integer", NUMBER),
    ("GetConflicts", "index", "integer", NUMBER),
];
