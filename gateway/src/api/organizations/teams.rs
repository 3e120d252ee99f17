//! Teams, their members and their repositories. Some handlers also serve routes of
//! [`crate::api::admin`].

use std::collections::BTreeMap;

use ferrite_api_types::convert::require;
use ferrite_api_types::links::Links;
use ferrite_api_types::{Repository, User};
use ferrite_proto::Permission;
use ferrite_proto::operation;
use ferrite_proto::repo::{
    self, AddTeamMemberRequest, AddTeamRepositoryRequest, CreateTeamRequest, DeleteTeamRequest, GetTeamMemberRequest,
    GetTeamRepositoryRequest, GetTeamRequest, ListTeamMembersRequest, ListTeamRepositoriesRequest, ListTeamsRequest,
    RemoveTeamMemberRequest, RemoveTeamRepositoryRequest, UpdateTeamRequest,
};
use serde::Serialize;

use super::organizations::Organization;
use super::units;
use crate::api::access::PermissionCheck;
use crate::api::call::{Authenticated, operations};
use crate::http::error::ApiResult;
use crate::http::page::WholeList;
use crate::http::path::Params;
use crate::http::request::{Flag, NonEmpty, Optional, OrDefault, RequestBody, Required, Text, TextMap, Texts, fields};
use crate::http::response::{Created, Json, List, NoContent};
use crate::http::routes::variant;

operations! {
    "/api/v1/orgs/{org}/teams" => get list as operation::LIST_TEAMS, post create as operation::CREATE_TEAM;
    "/api/v1/teams/{id}" =>
        get get as operation::GET_TEAM,
        patch update as operation::UPDATE_TEAM,
        delete remove as operation::DELETE_TEAM;
    "/api/v1/teams/{id}/members" => get members as operation::LIST_TEAM_MEMBERS;
    "/api/v1/teams/{id}/members/{username}" =>
        get member as operation::GET_TEAM_MEMBER,
        put add_member as operation::ADD_TEAM_MEMBER,
        delete remove_member as operation::REMOVE_TEAM_MEMBER;
    "/api/v1/teams/{id}/repos" => get repositories as operation::LIST_TEAM_REPOSITORIES;
    "/api/v1/teams/{id}/repos/{repo}" =>
        put add_repository as operation::ADD_TEAM_REPOSITORY,
        delete remove_repository as operation::REMOVE_TEAM_REPOSITORY;
    "/api/v1/teams/{id}/repos/{org}/{repo}" =>
        get repository as operation::GET_TEAM_REPOSITORY,
        put add_repository as variant(operation::ADD_TEAM_REPOSITORY, "ByFullName"),
        delete remove_repository as variant(operation::REMOVE_TEAM_REPOSITORY, "ByFullName");
}

ferrite_api_types::shape! {
    /// A team.
    #[derive(Clone, Debug, Serialize)]
    pub(crate) struct Team {
        id: i64,
        name: String,
        description: String,
        organization: Option<Organization>,
        /// Whether it has all repositories of the organization, also later ones.
        includes_all_repositories: bool,
        /// The permission: `read`, `write`, `admin`, or `owner` for the owners team.
        permission: String,
        /// The parts of repositories that the permission is for, by their names in Gitea.
        units: Vec<&'static str>,
        /// The permission on each part; `none` for those that repositories do not have.
        units_map: BTreeMap<String, String>,
        /// Whether its members may create repositories for the organization.
        can_create_org_repo: bool,
    }
}

impl Team {
    pub(crate) fn new(team: repo::Team, links: &Links) -> Self {
        let permission = Permission::from(team.permission()).to_string();
        Self {
            id: team.id,
            name: team.name,
            description: team.description,
            organization: team.organization.map(|organization| Organization::new(organization, links)),
            includes_all_repositories: team.includes_all_repositories,
            units: units::names(),
            units_map: units::map(&permission),
            permission,
            can_create_org_repo: team.can_create_repositories,
        }
    }
}

fields! {
    /// A new team.
    pub(crate) struct NewTeam {
        name: Required<Text<30>> = "developers",
        description: OrDefault<Text<255>> = "Those who write the code.",
        /// The permission: `read`, `write` or `admin`. The default is that of `units_map`, else
        /// `read`.
        permission: OrDefault<Text> = "write",
        /// Whether it gets all repositories of the organization, also later ones.
        includes_all_repositories: OrDefault<Flag> = false,
        /// Whether its members may create repositories for the organization.
        can_create_org_repo: OrDefault<Flag> = false,
        /// The parts of repositories that the permission is for, by their names in Gitea: all of
        /// code, issues, releases and wiki. Other parts make no difference.
        units: NonEmpty<Texts<50>> = ["repo.code", "repo.issues", "repo.releases", "repo.wiki"],
        /// The permission on each part of repositories, the same on code, issues, releases and wiki.
        units_map: Optional<TextMap>,
    }
}

fields! {
    /// Changes of a team.
    struct ChangedTeam {
        /// The name, with the rules for a new team. An empty one changes nothing.
        name: NonEmpty<Text<30>> = "maintainers",
        description: Optional<Text<255>> = "Those who release it.",
        /// The permission: `read`, `write` or `admin`. An empty text changes nothing.
        permission: NonEmpty<Text> = "admin",
        /// Whether it has all repositories of the organization. Without it, it has those that it was
        /// given one by one.
        includes_all_repositories: Optional<Flag> = true,
        /// Whether its members may create repositories for the organization.
        can_create_org_repo: Optional<Flag> = true,
        /// The parts of repositories that the permission is for, as for a new team.
        units: NonEmpty<Texts<50>> = ["repo.code", "repo.issues", "repo.releases", "repo.wiki"],
        /// The permission on each part of repositories, as for a new team.
        units_map: Optional<TextMap>,
    }
}

async fn list(Authenticated(call): Authenticated, path: Params, query: WholeList) -> ApiResult<List<Team>> {
    let organization = path.name("org");
    let request = ListTeamsRequest { organization, page: query.page.number, page_size: query.page.size };
    let response = call.clients.teams().list_teams(call.request(request)).await?.into_inner();
    let teams = response.teams.into_iter().map(|team| Team::new(team, &call.links)).collect();
    Ok(query.list(teams, response.total_count, &call.links))
}

pub(crate) async fn create(
    Authenticated(call): Authenticated,
    path: Params,
    body: RequestBody<NewTeam>,
) -> ApiResult<Created<Team>> {
    let (organization, as_administrator) = (path.name("org"), call.as_administrator);
    let check =
        PermissionCheck::of(operation::CREATE_TEAM).by_administrator(as_administrator).on_organization(&organization);
    let new = call.checked_body(check, body).await?;
    let request = CreateTeamRequest {
        organization,
        name: new.name,
        description: new.description,
        permission: units::permission(Some(new.permission), new.units, new.units_map)?.unwrap_or_default(),
        as_administrator,
        includes_all_repositories: new.includes_all_repositories,
        can_create_repositories: new.can_create_org_repo,
    };
    let response = call.clients.teams().create_team(call.request(request)).await?.into_inner();
    let team = Team::new(require(response.team, "team")?, &call.links);
    Ok(Created::at(call.links.api(&format!("/teams/{}", team.id)), team))
}

async fn get(Authenticated(call): Authenticated, path: Params) -> ApiResult<Json<Team>> {
    let request = call.request(GetTeamRequest { team_id: path.id("id") });
    let response = call.clients.teams().get_team(request).await?.into_inner();
    Ok(Json(Team::new(require(response.team, "team")?, &call.links)))
}

async fn update(
    Authenticated(call): Authenticated,
    path: Params,
    body: RequestBody<ChangedTeam>,
) -> ApiResult<Json<Team>> {
    let team_id = path.id("id");
    let check = PermissionCheck::of(operation::UPDATE_TEAM).on_team(team_id);
    let changed = call.checked_body(check, body).await?;
    let request = call.request(UpdateTeamRequest {
        team_id,
        name: changed.name,
        description: changed.description,
        permission: units::permission(changed.permission, changed.units, changed.units_map)?,
        includes_all_repositories: changed.includes_all_repositories,
        can_create_repositories: changed.can_create_org_repo,
    });
    let response = call.clients.teams().update_team(request).await?.into_inner();
    Ok(Json(Team::new(require(response.team, "team")?, &call.links)))
}

async fn remove(Authenticated(call): Authenticated, path: Params) -> ApiResult<NoContent> {
    let request = call.request(DeleteTeamRequest { team_id: path.id("id") });
    call.clients.teams().delete_team(request).await?;
    Ok(NoContent)
}

pub(crate) async fn members(
    Authenticated(call): Authenticated,
    path: Params,
    query: WholeList,
) -> ApiResult<List<User>> {
    let request = call.request(ListTeamMembersRequest {
        team_id: path.id("id"),
        page: query.page.number,
        page_size: query.page.size,
        as_administrator: call.as_administrator,
    });
    let response = call.clients.teams().list_team_members(request).await?.into_inner();
    Ok(query.list(call.users(response.users), response.total_count, &call.links))
}

async fn member(Authenticated(call): Authenticated, path: Params) -> ApiResult<Json<User>> {
    let request = GetTeamMemberRequest { team_id: path.id("id"), username: path.name("username") };
    let response = call.clients.teams().get_team_member(call.request(request)).await?.into_inner();
    Ok(Json(call.user(require(response.user, "user")?)))
}

pub(crate) async fn add_member(Authenticated(call): Authenticated, path: Params) -> ApiResult<NoContent> {
    let request = call.request(AddTeamMemberRequest {
        team_id: path.id("id"),
        username: path.name("username"),
        as_administrator: call.as_administrator,
    });
    call.clients.teams().add_team_member(request).await?;
    Ok(NoContent)
}

pub(crate) async fn remove_member(Authenticated(call): Authenticated, path: Params) -> ApiResult<NoContent> {
    let request = call.request(RemoveTeamMemberRequest {
        team_id: path.id("id"),
        username: path.name("username"),
        as_administrator: call.as_administrator,
    });
    call.clients.teams().remove_team_member(request).await?;
    Ok(NoContent)
}

async fn repositories(
    Authenticated(call): Authenticated,
    path: Params,
    query: WholeList,
) -> ApiResult<List<Repository>> {
    let (page, page_size) = (query.page.number, query.page.size);
    let request = ListTeamRepositoriesRequest { team_id: path.id("id"), page, page_size };
    let response = call.clients.teams().list_team_repositories(call.request(request)).await?.into_inner();
    Ok(query.list(call.repositories(response.repositories)?, response.total_count, &call.links))
}

async fn repository(Authenticated(call): Authenticated, path: Params) -> ApiResult<Json<Repository>> {
    let (team_id, repository, organization) = (path.id("id"), path.name("repo"), path.name("org"));
    let request = GetTeamRepositoryRequest { team_id, repository, organization };
    let response = call.clients.teams().get_team_repository(call.request(request)).await?.into_inner();
    Ok(Json(call.repository(response.repository)?))
}

pub(crate) async fn add_repository(Authenticated(call): Authenticated, path: Params) -> ApiResult<NoContent> {
    let request = call.request(AddTeamRepositoryRequest {
        team_id: path.id("id"),
        repository: path.name("repo"),
        as_administrator: call.as_administrator,
        organization: path.optional_name("org").unwrap_or_default(),
    });
    call.clients.teams().add_team_repository(request).await?;
    Ok(NoContent)
}

pub(crate) async fn remove_repository(Authenticated(call): Authenticated, path: Params) -> ApiResult<NoContent> {
    let request = call.request(RemoveTeamRepositoryRequest {
        team_id: path.id("id"),
        repository: path.name("repo"),
        as_administrator: call.as_administrator,
        organization: path.optional_name("org").unwrap_or_default(),
    });
    call.clients.teams().remove_team_repository(request).await?;
    Ok(NoContent)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn teams_have_the_shape_of_the_contract() {
        for (permission, expected) in [
            (repo::Permission::Read, "read"),
            (repo::Permission::Write, "write"),
            (repo::Permission::Admin, "admin"),
            (repo::Permission::Owner, "owner"),
        ] {
            let organization = repo::Organization { id: 2, username: "acme".into(), ..Default::default() };
            let team = repo::Team {
                id: 1,
                name: "t".into(),
                permission: permission.into(),
                organization: Some(organization),
                includes_all_repositories: true,
                ..Default::default()
            };
            let shown = serde_json::to_value(Team::new(team, &Links::new("http://h", "h:22"))).unwrap();
            let of_organization = json!({
                "id": 2, "name": "acme", "username": "acme", "full_name": "", "email": "",
                "avatar_url": "http://h/avatars/2", "description": "", "website": "", "location": "",
                "visibility": "public", "repo_admin_change_team_access": false,
            });
            let expected = json!({
                "id": 1, "name": "t", "description": "", "organization": of_organization, "permission": expected,
                "includes_all_repositories": true, "can_create_org_repo": false, "units": units::names(),
                "units_map": units::map(expected),
            });
            assert_eq!(shown, expected);
        }
    }
}
