//! All organizations of the site, and what a user may do in one of them.

use ferrite_core::page::Page;
use ferrite_proto::repo::{self, *};
use tonic::Request;

use super::authorized::Authorized;
use super::{encode, lookup};
use crate::access::{RequiredRole, Viewer};
use crate::error::RepoError;
use crate::state::AppState;
use crate::store::OrganizationRole;

const MAX_PAGE_SIZE: i32 = 100;

pub(super) async fn list_all_organizations(
    state: &AppState,
    authorized: Authorized,
    request: Request<ListAllOrganizationsRequest>,
) -> Result<ListAllOrganizationsResponse, RepoError> {
    let request = request.into_inner();
    let page = Page::nearest(request.page, request.page_size, MAX_PAGE_SIZE);
    let (rows, total_count) = state.organizations.list_all(authorized.viewer(), page).await?;
    let organizations = rows.into_iter().map(encode::organization).collect();
    Ok(ListAllOrganizationsResponse { organizations, total_count })
}

/// Teams are hidden from outsiders, and so is what they give to others.
pub(super) async fn get_organization_permissions(
    state: &AppState,
    authorized: Authorized,
    request: Request<GetOrganizationPermissionsRequest>,
) -> Result<GetOrganizationPermissionsResponse, RepoError> {
    let request = request.into_inner();
    let user = lookup::user(state, &request.username).await?;
    let organization = lookup::organization(state, &request.organization, authorized.viewer()).await?;
    if user.id != authorized.user()? {
        authorized.require_role(RequiredRole::Member, organization.role())?;
    }
    let level = state.organizations.highest_level(organization.id(), user.id).await?;
    let seen = state.organizations.find(&organization.name, &Viewer::account(user.id, false)).await?;
    let role = seen.map_or(OrganizationRole::Outsider, |seen| seen.role());
    Ok(GetOrganizationPermissionsResponse {
        permission: repo::Permission::from(level).into(),
        // The rule of CreateRepository for an organization.
        can_create_repository: matches!(role, OrganizationRole::Creator | OrganizationRole::Owner),
    })
}
