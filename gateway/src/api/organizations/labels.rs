//! Labels of organizations, for the issues of their repositories. Gogs does not have them.

use std::time::Instant;

use ferrite_api_types::Label;
use ferrite_api_types::convert::require;
use ferrite_proto::issue::{
    self, CreateOrganizationLabelRequest, DeleteOrganizationLabelRequest, GetOrganizationLabelRequest,
    ListOrganizationLabelsRequest, UpdateOrganizationLabelRequest,
};
use ferrite_proto::operation;

use crate::api::access::PermissionCheck;
use crate::api::call::{ApiCall, Authenticated, operations};
use crate::api::issues::labels::{ChangedLabel, NewLabel};
use crate::http::error::{ApiError, ApiResult};
use crate::http::page::WholeList;
use crate::http::path::Params;
use crate::http::request::{Fields, RequestBody};
use crate::http::response::{Created, Json, List, NoContent};
use crate::upstream::grant::Grant;

operations! {
    "/api/v1/orgs/{org}/labels" =>
        get list as operation::LIST_ORGANIZATION_LABELS,
        post create as operation::CREATE_ORGANIZATION_LABEL;
    "/api/v1/orgs/{org}/labels/{id}" =>
        get get as operation::GET_ORGANIZATION_LABEL,
        patch update as operation::UPDATE_ORGANIZATION_LABEL,
        delete remove as operation::DELETE_ORGANIZATION_LABEL;
}

async fn grant(call: &ApiCall, organization: &str, operation: &str) -> Result<Grant, ApiError> {
    call.grant(PermissionCheck::of(operation).on_organization(organization)).await
}

/// Checks the permission, reads the body, and checks again if that took long.
async fn grant_and_body<T: Fields>(
    call: &ApiCall,
    organization: &str,
    operation: &str,
    body: RequestBody<T>,
) -> Result<(Grant, T), ApiError> {
    let (granted, begin) = (grant(call, organization, operation).await?, Instant::now());
    // These operations have ordinary bodies, so there is no permit to hold.
    let (fields, _permit) = body.read(&call.body_limits).await?;
    let granted = match begin.elapsed() < call.reauthorizer.interval() {
        true => granted,
        false => grant(call, organization, operation).await?,
    };
    Ok((granted, fields))
}

fn shown(call: &ApiCall, label: Option<issue::Label>, organization: &str) -> ApiResult<Label> {
    Ok(Label::of_organization(require(label, "label")?, organization, &call.links))
}

async fn list(Authenticated(call): Authenticated, path: Params, query: WholeList) -> ApiResult<List<Label>> {
    let organization = path.name("org");
    let grant = grant(&call, &organization, operation::LIST_ORGANIZATION_LABELS).await?;
    let (page, page_size) = (query.page.number, query.page.size);
    let request = ListOrganizationLabelsRequest { organization: organization.clone(), page, page_size };
    let request = call.request_with_grant(&grant, request);
    let response = call.clients.labels().list_organization_labels(request).await?.into_inner();
    let labels = response.labels.into_iter().map(|label| Label::of_organization(label, &organization, &call.links));
    Ok(query.list(labels.collect(), response.total_count, &call.links))
}

/// Responds with a label, found by its id or its name.
async fn get(Authenticated(call): Authenticated, path: Params) -> ApiResult<Json<Label>> {
    let organization = path.name("org");
    let grant = grant(&call, &organization, operation::GET_ORGANIZATION_LABEL).await?;
    let request = GetOrganizationLabelRequest { organization: organization.clone(), label: path.name("id") };
    let request = call.request_with_grant(&grant, request);
    let response = call.clients.labels().get_organization_label(request).await?.into_inner();
    Ok(Json(shown(&call, response.label, &organization)?))
}

async fn create(
    Authenticated(call): Authenticated,
    path: Params,
    body: RequestBody<NewLabel>,
) -> ApiResult<Created<Label>> {
    let organization = path.name("org");
    let operation = operation::CREATE_ORGANIZATION_LABEL;
    let (grant, NewLabel { name, color, description }) = grant_and_body(&call, &organization, operation, body).await?;
    let request = CreateOrganizationLabelRequest { organization: organization.clone(), name, color, description };
    let request = call.request_with_grant(&grant, request);
    let response = call.clients.labels().create_organization_label(request).await?.into_inner();
    let made = require(response.label, "label")?;
    let url = call.links.organization_label(&organization, made.id);
    Ok(Created::at(url, Label::of_organization(made, &organization, &call.links)))
}

async fn update(
    Authenticated(call): Authenticated,
    path: Params,
    body: RequestBody<ChangedLabel>,
) -> ApiResult<Json<Label>> {
    let (organization, label_id) = (path.name("org"), path.id("id"));
    let operation = operation::UPDATE_ORGANIZATION_LABEL;
    let (grant, ChangedLabel { name, color, description }) =
        grant_and_body(&call, &organization, operation, body).await?;
    let of = organization.clone();
    let request = UpdateOrganizationLabelRequest { organization: of, label_id, name, color, description };
    let request = call.request_with_grant(&grant, request);
    let response = call.clients.labels().update_organization_label(request).await?.into_inner();
    Ok(Json(shown(&call, response.label, &organization)?))
}

async fn remove(Authenticated(call): Authenticated, path: Params) -> ApiResult<NoContent> {
    let organization = path.name("org");
    let grant = grant(&call, &organization, operation::DELETE_ORGANIZATION_LABEL).await?;
    let request = DeleteOrganizationLabelRequest { organization, label_id: path.id("id") };
    call.clients.labels().delete_organization_label(call.request_with_grant(&grant, request)).await?;
    Ok(NoContent)
}
