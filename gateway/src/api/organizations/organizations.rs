use ferrite_api_types::Visibility;
use ferrite_api_types::convert::require;
use ferrite_api_types::links::Links;
use ferrite_proto::operation;
use ferrite_proto::repo::{
    self, CreateOrganizationRequest, DeleteOrganizationRequest, GetOrganizationRequest, ListAllOrganizationsRequest,
    ListOrganizationsRequest, UpdateOrganizationRequest,
};
use serde::Serialize;

use crate::api::access::PermissionCheck;
use crate::api::call::{Authenticated, MaybeAuthenticated, operations};
use crate::http::error::ApiResult;
use crate::http::page::{ExtensionList, WholeList};
use crate::http::path::Params;
use crate::http::request::{
    AccountName, Flag, NonEmpty, Optional, OrDefault, RequestBody, Required, Text, Word, fields,
};
use crate::http::response::{Created, Json, List, NoContent};
use crate::http::routes::variant;
use crate::http::words::words;

operations! {
    "/api/v1/user/orgs" => get list as operation::LIST_ORGANIZATIONS, post create as operation::CREATE_ORGANIZATION;
    "/api/v1/users/{username}/orgs" => get list as variant(operation::LIST_ORGANIZATIONS, "OfUser");
    "/api/v1/orgs" =>
        get list_all as operation::LIST_ALL_ORGANIZATIONS,
        post create as variant(operation::CREATE_ORGANIZATION, "OfCaller");
    "/api/v1/orgs/{org}" =>
        get get as operation::GET_ORGANIZATION,
        patch update as operation::UPDATE_ORGANIZATION,
        delete remove as operation::DELETE_ORGANIZATION;
}

ferrite_api_types::shape! {
    /// An organization.
    #[derive(Clone, Debug, Serialize)]
    pub(crate) struct Organization {
        id: i64,
        name: String,
        /// The same as `name`.
        username: String,
        full_name: String,
        /// Always empty: organizations have no address.
        email: String,
        avatar_url: String,
        description: String,
        website: String,
        location: String,
        visibility: Visibility,
        /// Whether administrators of its repositories may give them to its teams.
        repo_admin_change_team_access: bool,
    }
}

words! {
    enum NewVisibility: repo::Visibility {
        "public" = repo::Visibility::Public,
        "limited" = repo::Visibility::Limited,
        "private" = repo::Visibility::Private,
    }
}

impl Organization {
    pub(super) fn new(organization: repo::Organization, links: &Links) -> Self {
        let visibility = organization.visibility().into();
        Self {
            id: organization.id,
            avatar_url: links.avatar(organization.id),
            name: organization.username.clone(),
            username: organization.username,
            full_name: organization.full_name,
            email: String::new(),
            description: organization.description,
            website: organization.website,
            location: organization.location,
            visibility,
            repo_admin_change_team_access: organization.repository_admins_change_teams,
        }
    }
}

fields! {
    /// A new organization.
    pub(crate) struct NewOrganization {
        username: Required<AccountName> = "acme",
        full_name: OrDefault<Text<100>> = "Acme Corporation",
        description: OrDefault<Text<255>> = "Makers of everything.",
        website: OrDefault<Text<100>> = "https://acme.example.com",
        location: OrDefault<Text<50>> = "Berlin",
        /// Who may see it, and its repositories that are not private: everyone, signed-in users, or
        /// its members. The default is `public`.
        visibility: NonEmpty<Word<NewVisibility>> = "public",
        /// Whether administrators of its repositories may give them to its teams.
        repo_admin_change_team_access: OrDefault<Flag> = false,
    }
}

fields! {
    /// Changes of an organization.
    struct ChangedOrganization {
        full_name: Optional<Text<100>> = "Acme Incorporated",
        description: Optional<Text<255>> = "Makers of everything.",
        website: Optional<Text<100>> = "https://acme.example.com",
        location: Optional<Text<50>> = "Hamburg",
        /// Who may see it, and its repositories that are not private: everyone, signed-in users, or
        /// its members. An empty text changes nothing.
        visibility: NonEmpty<Word<NewVisibility>> = "public",
        /// Whether administrators of its repositories may give them to its teams.
        repo_admin_change_team_access: Optional<Flag> = true,
    }
}

async fn list(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: Params,
    query: WholeList,
) -> ApiResult<List<Organization>> {
    let username = path.optional_name("username").unwrap_or_default();
    let request = ListOrganizationsRequest { username, page: query.page.number, page_size: query.page.size };
    let response = call.clients.organizations().list_organizations(call.request(request)).await?.into_inner();
    let organizations =
        response.organizations.into_iter().map(|organization| Organization::new(organization, &call.links));
    Ok(query.list(organizations.collect(), response.total_count, &call.links))
}

pub(crate) async fn list_all(
    Authenticated(call): Authenticated,
    query: ExtensionList,
) -> ApiResult<List<Organization>> {
    let (page, page_size, as_administrator) = (query.page.number, query.page.size, call.as_administrator);
    let request = ListAllOrganizationsRequest { page, page_size, as_administrator };
    let response = call.clients.organizations().list_all_organizations(call.request(request)).await?.into_inner();
    let organizations =
        response.organizations.into_iter().map(|organization| Organization::new(organization, &call.links));
    Ok(query.list(organizations.collect(), response.total_count, &call.links))
}

async fn get(MaybeAuthenticated(call): MaybeAuthenticated, path: Params) -> ApiResult<Json<Organization>> {
    let request = call.request(GetOrganizationRequest { organization: path.name("org") });
    let response = call.clients.organizations().get_organization(request).await?.into_inner();
    Ok(Json(Organization::new(require(response.organization, "organization")?, &call.links)))
}

/// Creates an organization of the caller, or of `owner` for an administrator.
pub(crate) async fn create(
    Authenticated(call): Authenticated,
    path: Params,
    body: RequestBody<NewOrganization>,
) -> ApiResult<Created<Organization>> {
    let owner = path.optional_name("username");
    let as_administrator = owner.is_some();
    let check = PermissionCheck::of(operation::CREATE_ORGANIZATION).by_administrator(as_administrator);
    let new = call.checked_body(check, body).await?;
    let request = call.request(CreateOrganizationRequest {
        username: new.username,
        full_name: new.full_name,
        description: new.description,
        website: new.website,
        location: new.location,
        owner: owner.unwrap_or_default(),
        as_administrator,
        visibility: new.visibility.unwrap_or_default().into(),
        repository_admins_change_teams: new.repo_admin_change_team_access,
    });
    let response = call.clients.organizations().create_organization(request).await?.into_inner();
    let organization = Organization::new(require(response.organization, "organization")?, &call.links);
    Ok(Created::at(call.links.api(&format!("/orgs/{}", organization.username)), organization))
}

async fn update(
    Authenticated(call): Authenticated,
    path: Params,
    body: RequestBody<ChangedOrganization>,
) -> ApiResult<Json<Organization>> {
    let organization = path.name("org");
    let check = PermissionCheck::of(operation::UPDATE_ORGANIZATION).on_organization(&organization);
    let changed = call.checked_body(check, body).await?;
    let request = UpdateOrganizationRequest {
        organization,
        full_name: changed.full_name,
        description: changed.description,
        website: changed.website,
        location: changed.location,
        visibility: changed.visibility.map(i32::from),
        repository_admins_change_teams: changed.repo_admin_change_team_access,
    };
    let response = call.clients.organizations().update_organization(call.request(request)).await?.into_inner();
    Ok(Json(Organization::new(require(response.organization, "organization")?, &call.links)))
}

async fn remove(Authenticated(call): Authenticated, path: Params) -> ApiResult<NoContent> {
    let request = call.request(DeleteOrganizationRequest { organization: path.name("org") });
    call.clients.organizations().delete_organization(request).await?;
    Ok(NoContent)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn organizations_have_the_shape_of_the_contract() {
        for (visibility, word) in [
            (repo::Visibility::Unspecified, "public"),
            (repo::Visibility::Public, "public"),
            (repo::Visibility::Limited, "limited"),
            (repo::Visibility::Private, "private"),
        ] {
            let visibility = visibility.into();
            let organization = repo::Organization { id: 2, username: "acme".into(), visibility, ..Default::default() };
            let shown = Organization::new(organization, &Links::new("http://h", "h:22"));
            let expected = json!({
                "id": 2, "name": "acme", "username": "acme", "full_name": "", "email": "",
                "avatar_url": "http://h/avatars/2", "description": "", "website": "", "location": "",
                "visibility": word, "repo_admin_change_team_access": false,
            });
            assert_eq!(serde_json::to_value(shown).unwrap(), expected);
        }
    }
}
