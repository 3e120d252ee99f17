//! Organizations and who belongs to them.
//!
//! What is private about a membership is shown to members and to administrators of the site, and only with a token of scope `org`.

mod create_organization;
mod delete_organization;
mod get_membership;
mod get_organization;
mod list_members;
mod list_organizations;
mod remove_member;
mod set_membership;
mod set_membership_visibility;
mod update_organization;

use ferrite_proto::Scope;
use ferrite_proto::repo;
use ferrite_proto::repo::organization_service_server::OrganizationService;
use ferrite_proto::repo::{
    CreateOrganizationRequest, CreateOrganizationResponse, DeleteOrganizationRequest, DeleteOrganizationResponse,
    GetMembershipRequest, GetMembershipResponse, GetOrganizationRequest, GetOrganizationResponse, ListMembersRequest,
    ListMembersResponse, ListOrganizationsRequest, ListOrganizationsResponse, RemoveMemberRequest,
    RemoveMemberResponse, SetMembershipRequest, SetMembershipResponse, SetMembershipVisibilityRequest,
    SetMembershipVisibilityResponse, UpdateOrganizationRequest, UpdateOrganizationResponse,
};

use super::service;
use crate::access::Viewer;
use crate::store::{Organization, Standing};

const MAX_PAGE_SIZE: i32 = 1_000;

service!(OrganizationService {
    list_organizations(ListOrganizationsRequest) -> ListOrganizationsResponse;
    get_organization(GetOrganizationRequest) -> GetOrganizationResponse;
    create_organization(CreateOrganizationRequest, acting) -> CreateOrganizationResponse;
    update_organization(UpdateOrganizationRequest) -> UpdateOrganizationResponse;
    delete_organization(DeleteOrganizationRequest) -> DeleteOrganizationResponse;
    list_members(ListMembersRequest) -> ListMembersResponse;
    get_membership(GetMembershipRequest) -> GetMembershipResponse;
    set_membership(SetMembershipRequest) -> SetMembershipResponse;
    set_membership_visibility(SetMembershipVisibilityRequest) -> SetMembershipVisibilityResponse;
    remove_member(RemoveMemberRequest) -> RemoveMemberResponse;
});

fn encode(row: Organization) -> repo::Organization {
    repo::Organization {
        id: row.id,
        username: row.name,
        full_name: row.full_name,
        description: row.description,
        website: row.website,
        location: row.location,
    }
}

/// Whether a viewer may know of private memberships where it is a member itself.
fn knows_its_own(viewer: &Viewer) -> bool {
    viewer.user().is_some() && viewer.scopes().contain(Scope::Org)
}

/// Whether a viewer may know of all memberships of an organization that was read for it.
fn sees_all(viewer: &Viewer, organization: &Organization) -> bool {
    viewer.administers() || (organization.standing() != Standing::Outsider && knows_its_own(viewer))
}
