use super::Row;

const NUMBER: &str = "The number of the pull request in its repository.";

pub(super) const ROWS: &[Row] = &[
    ("GetPull", "index", "integer", NUMBER),
    ("MergePull", "index", "integer", NUMBER),
    ("UpdatePullHead", "index", "integer", NUMBER),
    ("GetConflicts", "index", "integer", NUMBER),
];
