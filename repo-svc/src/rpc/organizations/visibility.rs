use ferrite_proto::Scope;

use crate::access::Viewer;
use crate::store::{Organization, OrganizationRole};

/// Returns whether a viewer may see private memberships of organizations that it is a member of.
pub(super) fn sees_own_private(viewer: &Viewer) -> bool {
    viewer.user().is_some() && viewer.scopes().contain(Scope::Org)
}

/// Returns whether a viewer may see all memberships of an organization that was read for it.
pub(super) fn sees_all(viewer: &Viewer, organization: &Organization) -> bool {
    viewer.is_site_administrator() || (organization.role() != OrganizationRole::Outsider && sees_own_private(viewer))
}
