//! Teams, their members and their repositories. Some handlers also serve routes of
//! [`crate::api::admin`].

use ferrite_api_types::convert::require;
use ferrite_api_types::{Repository, User};
use ferrite_proto::Permission;
use ferrite_proto::operation;
use ferrite_proto::repo::{
    self, AddTeamMemberRequest, AddTeamRepositoryRequest, CreateTeamRequest, DeleteTeamRequest, GetTeamRequest,
    ListTeamMembersRequest, ListTeamRepositoriesRequest, ListTeamsRequest, RemoveTeamMemberRequest,
    RemoveTeamRepositoryRequest, UpdateTeamRequest,
};
use serde::Serialize;

use crate::api::access::PermissionCheck;
use crate::api::call::{Authenticated, operations};
use crate::http::error::ApiResult;
use crate::http::page::WholeList;
use crate::http::path::Params;
use crate::http::request::{NonEmpty, Optional, OrDefault, RequestBody, Required, Text, fields};
use crate::http::response::{Created, Json, List, NoContent};

operations! {
    "/api/v1/orgs/{org}/teams" => get list as operation::LIST_TEAMS, post create as operation::CREATE_TEAM;
    "/api/v1/teams/{id}" =>
        get get as operation::GET_TEAM,
        patch update as operation::UPDATE_TEAM,
        delete remove as operation::DELETE_TEAM;
    "/api/v1/teams/{id}/members" => get members as operation::LIST_TEAM_MEMBERS;
    "/api/v1/teams/{id}/members/{username}" =>
        put add_member as operation::ADD_TEAM_MEMBER,
        delete remove_member as operation::REMOVE_TEAM_MEMBER;
    "/api/v1/teams/{id}/repos" => get repositories as operation::LIST_TEAM_REPOSITORIES;
    "/api/v1/teams/{id}/repos/{repo}" =>
        put add_repository as operation::ADD_TEAM_REPOSITORY,
        delete remove_repository as operation::REMOVE_TEAM_REPOSITORY;
}

ferrite_api_types::shape! {
    /// A team.
    #[derive(Clone, Debug, Serialize)]
    pub(crate) struct Team {
        id: i64,
        name: String,
        description: String,
        /// The permission: `read`, `write`, `admin`, or `owner` for the owners team.
        permission: String,
    }
}

impl From<repo::Team> for Team {
    fn from(team: repo::Team) -> Self {
        let permission = Permission::from(team.permission()).to_string();
        Self { id: team.id, name: team.name, description: team.description, permission }
    }
}

fields! {
    /// A new team.
    pub(crate) struct NewTeam {
        name: Required<Text<30>> = "developers",
        description: OrDefault<Text<255>> = "Those who write the code.",
        permission: OrDefault<Text> = "write",
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
    }
}

async fn list(Authenticated(call): Authenticated, path: Params, query: WholeList) -> ApiResult<List<Team>> {
    let organization = path.name("org");
    let request = ListTeamsRequest { organization, page: query.page.number, page_size: query.page.size };
    let response = call.clients.teams().list_teams(call.request(request)).await?.into_inner();
    let teams = response.teams.into_iter().map(Team::from).collect();
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
    let NewTeam { name, description, permission } = call.checked_body(check, body).await?;
    let request = CreateTeamRequest { organization, name, description, permission, as_administrator };
    let response = call.clients.teams().create_team(call.request(request)).await?.into_inner();
    let team = Team::from(require(response.team, "team")?);
    Ok(Created::at(call.links.api(&format!("/teams/{}", team.id)), team))
}

async fn get(Authenticated(call): Authenticated, path: Params) -> ApiResult<Json<Team>> {
    let request = call.request(GetTeamRequest { team_id: path.id("id") });
    let response = call.clients.teams().get_team(request).await?.into_inner();
    Ok(Json(Team::from(require(response.team, "team")?)))
}

async fn update(
    Authenticated(call): Authenticated,
    path: Params,
    body: RequestBody<ChangedTeam>,
) -> ApiResult<Json<Team>> {
    let team_id = path.id("id");
    let check = PermissionCheck::of(operation::UPDATE_TEAM).on_team(team_id);
    let ChangedTeam { name, description, permission } = call.checked_body(check, body).await?;
    let request = call.request(UpdateTeamRequest { team_id, name, description, permission });
    let response = call.clients.teams().update_team(request).await?.into_inner();
    Ok(Json(Team::from(require(response.team, "team")?)))
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

pub(crate) async fn add_repository(Authenticated(call): Authenticated, path: Params) -> ApiResult<NoContent> {
    let request = call.request(AddTeamRepositoryRequest {
        team_id: path.id("id"),
        repository: path.name("repo"),
        as_administrator: call.as_administrator,
    });
    call.clients.teams().add_team_repository(request).await?;
    Ok(NoContent)
}

pub(crate) async fn remove_repository(Authenticated(call): Authenticated, path: Params) -> ApiResult<NoContent> {
    let request = call.request(RemoveTeamRepositoryRequest {
        team_id: path.id("id"),
        repository: path.name("repo"),
        as_administrator: call.as_administrator,
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
            let team = repo::Team { id: 1, name: "t".into(), permission: permission.into(), ..Default::default() };
            let expected = json!({"id": 1, "name": "t", "description": "", "permission": expected});
            assert_eq!(serde_json::to_value(Team::from(team)).unwrap(), expected);
        }
    }
}
