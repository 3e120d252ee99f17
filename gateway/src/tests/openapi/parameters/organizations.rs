use super::Row;

pub(super) const ROWS: &[Row] = &[
    ("GetOrganizationLabel", "id", "string", "The id, or the name if no label of the organization has that id."),
    ("UpdateOrganizationLabel", "id", "integer", "The id of the label."),
    ("DeleteOrganizationLabel", "id", "integer", "The id of the label."),
];
