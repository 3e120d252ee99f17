//! Descriptions of path parameters, one file per folder of handlers.

mod accounts;
mod admin;
mod git;
mod hooks;
mod issues;
mod organizations;
mod pulls;
mod releases;
mod repositories;

/// A path parameter: the operation for which the row holds (empty for all others), its name, type
/// and description.
type Row = (&'static str, &'static str, &'static str, &'static str);

const COMMON: &[Row] = &[
    ("", "owner", "string", "The user or organization that owns the repository."),
    ("", "repo", "string", "The name of the repository."),
    ("", "org", "string", "The name of the organization."),
    ("", "username", "string", "The name of the user."),
    ("", "id", "integer", "The id."),
];

/// Returns the type and the description of a path parameter, from the first of the operations that
/// has a row for it.
pub(super) fn path_parameter(operations: [&str; 2], name: &str) -> (&'static str, &'static str) {
    let tables = [
        COMMON,
        accounts::ROWS,
        admin::ROWS,
        git::ROWS,
        hooks::ROWS,
        issues::ROWS,
        organizations::ROWS,
        pulls::ROWS,
        releases::ROWS,
        repositories::ROWS,
    ];
    let find = |operation| tables.into_iter().flatten().find(|row| (row.0, row.1) == (operation, name));
    let row = operations.into_iter().chain([""]).find_map(find);
    let row = row.unwrap_or_else(|| panic!("`{name}` of {operations:?} is missing in tests/openapi/parameters"));
    (row.2, row.3)
}
