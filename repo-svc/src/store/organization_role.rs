use ferrite_kit::db::Query;
use ferrite_proto::id::UserId;

/// The role of a user in an organization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OrganizationRole {
    /// No member.
    Outsider,
    /// A member.
    Member,
    /// A member of the team of owners.
    Owner,
}

impl OrganizationRole {
    /// Decodes the column `role` of [`push_role`].
    pub(super) fn from_number(number: i32) -> Self {
        match number {
            2 => Self::Owner,
            1 => Self::Member,
            _ => Self::Outsider,
        }
    }
}

/// Adds the column `role` to a query: the role of `viewer` in the organization whose id is the expression `organization`, as the
/// number of an [`OrganizationRole`].
pub(super) fn push_role(query: &mut Query, organization: &'static str, viewer: Option<UserId>) {
    let viewer = viewer.map_or(0, |user| user.0);
    query
        .push(
            "CASE WHEN EXISTS (SELECT 1 FROM team_members m JOIN teams w ON w.id = m.team_id \
             WHERE w.level = 4 AND w.organization_id = ",
        )
        .push(organization)
        .push(" AND m.user_id = ")
        .bind(viewer)
        .push(") THEN 2 WHEN EXISTS (SELECT 1 FROM memberships m WHERE m.organization_id = ")
        .push(organization)
        .push(" AND m.user_id = ")
        .bind(viewer)
        .push(") THEN 1 ELSE 0 END AS role");
}
