use super::Row;

pub(super) const ROWS: &[Row] = &[
    ("", "collaborator", "string", "The name of the collaborator."),
    ("", "topic", "string", "The name of the topic."),
    ("GetRepositoryById", "id", "integer", "The id of the repository."),
    ("GetMigration", "id", "integer", "The id of the import."),
];
