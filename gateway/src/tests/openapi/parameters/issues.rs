//! Issues, comments, labels and milestones.

use super::Row;

pub(super) const ROWS: &[Row] = &[
    ("", "index", "integer", "The number of the issue in its repository."),
    ("GetLabel", "id", "string", "The id, or the name if no label of the repository has that id."),
];
