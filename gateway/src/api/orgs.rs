//! Organizations. Not here: their members and teams.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ferrite_proto::repo::{
    CreateOrganizationRequest, DeleteOrganizationRequest, GetOrganizationRequest, ListOrganizationsRequest,
    UpdateOrganizationRequest,
};

use super::access::PermissionCheck;
use super::named_user::NamedUser;
use super::operation;
use super::state::ApiState;
use crate::auth::{Authenticated, MaybeAuthenticated};
use crate::dto::{Organization, require};
use crate::http::body::JsonBody;
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::Params;
use crate::http::query::Query;
use crate::http::routes::routes;

routes! { ApiState:
    "/api/v1/user/orgs" => get list as operation::LIST_ORGANIZATIONS, post create as operation::CREATE_ORGANIZATION;
    "/api/v1/users/{username}/orgs" => get list as operation::LIST_ORGANIZATIONS;
    "/api/v1/orgs/{org}" =>
        get get as operation::GET_ORGANIZATION,
        patch update as operation::UPDATE_ORGANIZATION,
        delete remove as operation::DELETE_ORGANIZATION;
}

async fn list(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    NamedUser(username): NamedUser,
    query: Query,
) -> Result<Response, ApiError> {
    let username = username.unwrap_or_default();
    let page = query.page(PageLimits::WHOLE_LIST);
    let request = context.request(ListOrganizationsRequest { username, page: page.number, page_size: page.size });
    let answer = api.clients.organizations().list_organizations(request).await?.into_inner();
    let organizations =
        answer.organizations.into_iter().map(|organization| Organization::new(organization, &api.links));
    Ok(json::page(organizations.collect::<Vec<_>>(), query.headers(page, answer.total_count, &api.links)))
}

async fn get(
    State(api): State<ApiState>,
    MaybeAuthenticated(context): MaybeAuthenticated,
    path: Params,
) -> Result<Response, ApiError> {
    let request = context.request(GetOrganizationRequest { organization: path.name("org") });
    let answer = api.clients.organizations().get_organization(request).await?.into_inner();
    Ok(json::ok(Organization::new(require(answer.organization, "organization")?, &api.links)))
}

/// Creates an organization of the caller, or of `owner` for a caller that acts as an administrator.
pub(super) async fn create(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    NamedUser(owner): NamedUser,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let as_administrator = owner.is_some();
    let check = PermissionCheck::of(operation::CREATE_ORGANIZATION).by_administrator(as_administrator);
    let decode = api.decode_body(&context, check, body, |fields| CreateOrganizationRequest {
        username: fields.required_non_empty("username"),
        full_name: fields.text_or_empty("full_name"),
        description: fields.text_or_empty("description"),
        website: fields.text_or_empty("website"),
        location: fields.text_or_empty("location"),
        owner: owner.unwrap_or_default(),
        as_administrator,
    });
    let request = context.request(decode.await?);
    let answer = api.clients.organizations().create_organization(request).await?.into_inner();
    Ok(json::created(Organization::new(require(answer.organization, "organization")?, &api.links)))
}

async fn update(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let organization = path.name("org");
    let check = PermissionCheck::of(operation::UPDATE_ORGANIZATION).on_organization(&organization);
    let decode = api.decode_body(&context, check, body, |fields| UpdateOrganizationRequest {
        organization,
        full_name: fields.optional_text("full_name"),
        description: fields.optional_text("description"),
        website: fields.optional_text("website"),
        location: fields.optional_text("location"),
    });
    let request = context.request(decode.await?);
    let answer = api.clients.organizations().update_organization(request).await?.into_inner();
    Ok(json::ok(Organization::new(require(answer.organization, "organization")?, &api.links)))
}

async fn remove(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
) -> Result<Response, ApiError> {
    let request = context.request(DeleteOrganizationRequest { organization: path.name("org") });
    api.clients.organizations().delete_organization(request).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
