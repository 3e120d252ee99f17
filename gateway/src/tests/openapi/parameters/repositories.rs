//! Repositories, their collaborators, topics and settings.

use super::Row;

pub(super) const ROWS: &[Row] = &[
    ("", "collaborator", "string", "The name of the user."),
    ("", "topic", "string", "The topic."),
    ("GetMigration", "id", "integer", "The id of the import."),
];
