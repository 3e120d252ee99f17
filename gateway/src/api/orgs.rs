use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ferrite_proto::repo::{
    CreateOrganizationRequest, DeleteOrganizationRequest, GetOrganizationRequest, ListOrganizationsRequest,
    UpdateOrganizationRequest,
};

use super::access::Attempt;
use super::operation;
use crate::auth::{Anyone, Call, Signed};
use crate::dto::{Organization, present};
use crate::http::body::Payload;
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::page::{Query, WHOLE};
use crate::http::path::Params;
use crate::http::routes::routes;
use crate::state::Gateway;

routes! { Gateway:
    "/api/v1/user/orgs" => get list_mine as operation::LIST_ORGANIZATIONS, post create as operation::CREATE_ORGANIZATION;
    "/api/v1/users/{username}/orgs" => get list_of_user as operation::LIST_ORGANIZATIONS;
    "/api/v1/orgs/{org}" =>
        get get as operation::GET_ORGANIZATION,
        patch update as operation::UPDATE_ORGANIZATION,
        delete remove as operation::DELETE_ORGANIZATION;
}

async fn list_mine(State(gateway): State<Gateway>, Signed(call): Signed, query: Query) -> Result<Response, ApiError> {
    list(&gateway, &call, &query, String::new()).await
}

async fn list_of_user(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: Params,
    query: Query,
) -> Result<Response, ApiError> {
    list(&gateway, &call, &query, path.name("username")).await
}

async fn list(gateway: &Gateway, call: &Call, query: &Query, username: String) -> Result<Response, ApiError> {
    let page = query.page(WHOLE);
    let request = call.request(ListOrganizationsRequest { username, page: page.number, page_size: page.size });
    let answer = gateway.clients.organizations().list_organizations(request).await?.into_inner();
    let shown = answer.organizations.into_iter().map(|organization| Organization::new(organization, &gateway.links));
    Ok(json::page(shown.collect::<Vec<_>>(), query.headers(page, answer.total_count, &gateway.links)))
}

async fn get(State(gateway): State<Gateway>, Anyone(call): Anyone, path: Params) -> Result<Response, ApiError> {
    let request = call.request(GetOrganizationRequest { organization: path.name("org") });
    let answer = gateway.clients.organizations().get_organization(request).await?.into_inner();
    Ok(json::ok(Organization::new(present(answer.organization, "organization")?, &gateway.links)))
}

async fn create(State(gateway): State<Gateway>, Signed(call): Signed, payload: Payload) -> Result<Response, ApiError> {
    add(&gateway, &call, payload, None).await
}

/// Makes an organization of the caller, or as an administrator one of `owner`.
pub(super) async fn add(
    gateway: &Gateway,
    call: &Call,
    payload: Payload,
    owner: Option<String>,
) -> Result<Response, ApiError> {
    let as_administrator = owner.is_some();
    let attempt = Attempt::of(operation::CREATE_ORGANIZATION).by_administrator(as_administrator);
    let decode = gateway.decoded(call, attempt, payload, |fields| CreateOrganizationRequest {
        username: fields.required("username"),
        full_name: fields.text_or_empty("full_name"),
        description: fields.text_or_empty("description"),
        website: fields.text_or_empty("website"),
        location: fields.text_or_empty("location"),
        owner: owner.unwrap_or_default(),
        as_administrator,
    });
    let request = call.request(decode.await?);
    let answer = gateway.clients.organizations().create_organization(request).await?.into_inner();
    Ok(json::created(Organization::new(present(answer.organization, "organization")?, &gateway.links)))
}

async fn update(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: Params,
    payload: Payload,
) -> Result<Response, ApiError> {
    let organization = path.name("org");
    let attempt = Attempt::of(operation::UPDATE_ORGANIZATION).on_organization(&organization);
    let decode = gateway.decoded(&call, attempt, payload, |fields| UpdateOrganizationRequest {
        organization,
        full_name: fields.optional_text("full_name"),
        description: fields.optional_text("description"),
        website: fields.optional_text("website"),
        location: fields.optional_text("location"),
    });
    let request = call.request(decode.await?);
    let answer = gateway.clients.organizations().update_organization(request).await?.into_inner();
    Ok(json::ok(Organization::new(present(answer.organization, "organization")?, &gateway.links)))
}

async fn remove(State(gateway): State<Gateway>, Signed(call): Signed, path: Params) -> Result<Response, ApiError> {
    let request = call.request(DeleteOrganizationRequest { organization: path.name("org") });
    gateway.clients.organizations().delete_organization(request).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
