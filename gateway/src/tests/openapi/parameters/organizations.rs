use super::Row;

pub(super) const ROWS: &[Row] = &[
    ("GetTeamRepository", "org", "string", "The name of the team's organization."),
    ("AddTeamRepository", "org", "string", "The name of the team's organization."),
    ("RemoveTeamRepository", "org", "string", "The name of the team's organization."),
    ("GetOrganizationLabel", "id", "string", "The id, or the name if no label of the organization has that id."),
    ("UpdateOrganizationLabel", "id", "integer", "The id of the label."),
    ("DeleteOrganizationLabel", "id", "integer", "The id of the label."),
];
