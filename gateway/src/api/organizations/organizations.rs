//! Organizations. Not here: their members and teams.

use ferrite_proto::operation;
use ferrite_proto::repo::{
    CreateOrganizationRequest, DeleteOrganizationRequest, GetOrganizationRequest, ListOrganizationsRequest,
    UpdateOrganizationRequest,
};

use crate::api::access::PermissionCheck;
use crate::api::call::{Authenticated, MaybeAuthenticated, routes};
use crate::dto::{Organization, require};
use crate::http::body::JsonBody;
use crate::http::error::ApiResult;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::Params;
use crate::http::query::Query;

routes! {
    "/api/v1/user/orgs" => get list as operation::LIST_ORGANIZATIONS, post create as operation::CREATE_ORGANIZATION;
    "/api/v1/users/{username}/orgs" => get list as operation::LIST_ORGANIZATIONS;
    "/api/v1/orgs/{org}" =>
        get get as operation::GET_ORGANIZATION,
        patch update as operation::UPDATE_ORGANIZATION,
        delete remove as operation::DELETE_ORGANIZATION;
}

async fn list(Authenticated(call): Authenticated, path: Params, query: Query) -> ApiResult {
    let username = path.optional_name("username").unwrap_or_default();
    let page = query.page(PageLimits::WHOLE_LIST);
    let request = call.request(ListOrganizationsRequest { username, page: page.number, page_size: page.size });
    let response = call.clients.organizations().list_organizations(request).await?.into_inner();
    let organizations =
        response.organizations.into_iter().map(|organization| Organization::new(organization, &call.links));
    Ok(json::page(organizations.collect::<Vec<_>>(), query.headers(page, response.total_count, &call.links)))
}

async fn get(MaybeAuthenticated(call): MaybeAuthenticated, path: Params) -> ApiResult {
    let request = call.request(GetOrganizationRequest { organization: path.name("org") });
    let response = call.clients.organizations().get_organization(request).await?.into_inner();
    Ok(json::ok(Organization::new(require(response.organization, "organization")?, &call.links)))
}

/// Creates an organization of the caller, or of `owner` for a caller that acts as an administrator.
pub(crate) async fn create(Authenticated(call): Authenticated, path: Params, body: JsonBody) -> ApiResult {
    let owner = path.optional_name("username");
    let as_administrator = owner.is_some();
    let check = PermissionCheck::of(operation::CREATE_ORGANIZATION).by_administrator(as_administrator);
    let decode = call.decode_body(check, body, |fields| CreateOrganizationRequest {
        username: fields.required_non_empty("username"),
        full_name: fields.text_or_empty("full_name"),
        description: fields.text_or_empty("description"),
        website: fields.text_or_empty("website"),
        location: fields.text_or_empty("location"),
        owner: owner.unwrap_or_default(),
        as_administrator,
    });
    let request = call.request(decode.await?);
    let response = call.clients.organizations().create_organization(request).await?.into_inner();
    Ok(json::created(Organization::new(require(response.organization, "organization")?, &call.links)))
}

async fn update(Authenticated(call): Authenticated, path: Params, body: JsonBody) -> ApiResult {
    let organization = path.name("org");
    let check = PermissionCheck::of(operation::UPDATE_ORGANIZATION).on_organization(&organization);
    let decode = call.decode_body(check, body, |fields| UpdateOrganizationRequest {
        organization,
        full_name: fields.optional_text("full_name"),
        description: fields.optional_text("description"),
        website: fields.optional_text("website"),
        location: fields.optional_text("location"),
    });
    let request = call.request(decode.await?);
    let response = call.clients.organizations().update_organization(request).await?.into_inner();
    Ok(json::ok(Organization::new(require(response.organization, "organization")?, &call.links)))
}

async fn remove(Authenticated(call): Authenticated, path: Params) -> ApiResult {
    let request = call.request(DeleteOrganizationRequest { organization: path.name("org") });
    call.clients.organizations().delete_organization(request).await?;
    Ok(json::no_content())
}
