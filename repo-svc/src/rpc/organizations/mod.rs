//! Organizations and their members.
//!
//! Private memberships are visible to members of the organization and administrators of the site, with a token of scope `org`.

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
mod visibility;

use ferrite_proto::repo::organization_service_server::OrganizationService;
use ferrite_proto::repo::*;

use super::dispatch::permitted_service;

permitted_service!(OrganizationService {
    list_organizations(ListOrganizationsRequest) -> ListOrganizationsResponse;
    get_organization(GetOrganizationRequest) -> GetOrganizationResponse;
    create_organization(CreateOrganizationRequest, as_administrator) -> CreateOrganizationResponse;
    update_organization(UpdateOrganizationRequest) -> UpdateOrganizationResponse;
    delete_organization(DeleteOrganizationRequest) -> DeleteOrganizationResponse;
    list_members(ListMembersRequest) -> ListMembersResponse;
    get_membership(GetMembershipRequest) -> GetMembershipResponse;
    set_membership(SetMembershipRequest) -> SetMembershipResponse;
    set_membership_visibility(SetMembershipVisibilityRequest) -> SetMembershipVisibilityResponse;
    remove_member(RemoveMemberRequest) -> RemoveMemberResponse;
});
