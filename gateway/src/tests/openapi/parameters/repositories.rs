use super::Row;

pub(super) const ROWS: &[Row] = &[
    ("", "collaborator", "string", "The name of the collaborator."),
    ("GetCollaboratorPermission", "collaborator", "string", "The name of the user."),
    ("", "team", "string", "The name of the team."),
    ("", "topic", "string", "The name of the topic."),
    ("GetRepositoryById", "id", "integer", "The id of the repository."),
    ("GetMigration", "id", "integer", "The id of the import."),
];
