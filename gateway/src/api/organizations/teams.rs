//! Teams, their members and their repositories. Some handlers also serve the routes of [`crate::api::admin`].

use ferrite_proto::operation;
use ferrite_proto::repo::{
    AddTeamMemberRequest, AddTeamRepositoryRequest, CreateTeamRequest, DeleteTeamRequest, GetTeamRequest,
    ListTeamMembersRequest, ListTeamRepositoriesRequest, ListTeamsRequest, RemoveTeamMemberRequest,
    RemoveTeamRepositoryRequest, UpdateTeamRequest,
};

use crate::api::access::PermissionCheck;
use crate::api::call::{Authenticated, routes};
use crate::dto::{Team, require};
use crate::http::body::JsonBody;
use crate::http::error::ApiResult;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::Params;
use crate::http::query::Query;

routes! {
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

async fn list(Authenticated(call): Authenticated, path: Params, query: Query) -> ApiResult {
    let page = query.page(PageLimits::WHOLE_LIST);
    let request = ListTeamsRequest { organization: path.name("org"), page: page.number, page_size: page.size };
    let response = call.clients.teams().list_teams(call.request(request)).await?.into_inner();
    let teams: Vec<_> = response.teams.into_iter().map(Team::from).collect();
    Ok(json::page(teams, query.headers(page, response.total_count, &call.links)))
}

pub(crate) async fn create(Authenticated(call): Authenticated, path: Params, body: JsonBody) -> ApiResult {
    let organization = path.name("org");
    let check = PermissionCheck::of(operation::CREATE_TEAM)
        .by_administrator(call.as_administrator)
        .on_organization(&organization);
    let decode = call.decode_body(check, body, |fields| CreateTeamRequest {
        organization,
        name: fields.required_non_empty("name"),
        description: fields.text_or_empty("description"),
        permission: fields.text_or_empty("permission"),
        as_administrator: call.as_administrator,
    });
    let request = call.request(decode.await?);
    let response = call.clients.teams().create_team(request).await?.into_inner();
    Ok(json::created(Team::from(require(response.team, "team")?)))
}

async fn get(Authenticated(call): Authenticated, path: Params) -> ApiResult {
    let request = call.request(GetTeamRequest { team_id: path.id("id") });
    let response = call.clients.teams().get_team(request).await?.into_inner();
    Ok(json::ok(Team::from(require(response.team, "team")?)))
}

async fn update(Authenticated(call): Authenticated, path: Params, body: JsonBody) -> ApiResult {
    let team_id = path.id("id");
    let check = PermissionCheck::of(operation::UPDATE_TEAM).on_team(team_id);
    let decode = call.decode_body(check, body, |fields| UpdateTeamRequest {
        team_id,
        name: fields.optional_non_empty("name"),
        description: fields.optional_text("description"),
        permission: fields.optional_non_empty("permission"),
    });
    let request = call.request(decode.await?);
    let response = call.clients.teams().update_team(request).await?.into_inner();
    Ok(json::ok(Team::from(require(response.team, "team")?)))
}

async fn remove(Authenticated(call): Authenticated, path: Params) -> ApiResult {
    let request = call.request(DeleteTeamRequest { team_id: path.id("id") });
    call.clients.teams().delete_team(request).await?;
    Ok(json::no_content())
}

pub(crate) async fn members(Authenticated(call): Authenticated, path: Params, query: Query) -> ApiResult {
    let page = query.page(PageLimits::WHOLE_LIST);
    let request = call.request(ListTeamMembersRequest {
        team_id: path.id("id"),
        page: page.number,
        page_size: page.size,
        as_administrator: call.as_administrator,
    });
    let response = call.clients.teams().list_team_members(request).await?.into_inner();
    let members = call.users(response.users);
    Ok(json::page(members, query.headers(page, response.total_count, &call.links)))
}

pub(crate) async fn add_member(Authenticated(call): Authenticated, path: Params) -> ApiResult {
    let request = call.request(AddTeamMemberRequest {
        team_id: path.id("id"),
        username: path.name("username"),
        as_administrator: call.as_administrator,
    });
    call.clients.teams().add_team_member(request).await?;
    Ok(json::no_content())
}

pub(crate) async fn remove_member(Authenticated(call): Authenticated, path: Params) -> ApiResult {
    let request = call.request(RemoveTeamMemberRequest {
        team_id: path.id("id"),
        username: path.name("username"),
        as_administrator: call.as_administrator,
    });
    call.clients.teams().remove_team_member(request).await?;
    Ok(json::no_content())
}

async fn repositories(Authenticated(call): Authenticated, path: Params, query: Query) -> ApiResult {
    let page = query.page(PageLimits::WHOLE_LIST);
    let request = ListTeamRepositoriesRequest { team_id: path.id("id"), page: page.number, page_size: page.size };
    let response = call.clients.teams().list_team_repositories(call.request(request)).await?.into_inner();
    let repositories = call.repositories(response.repositories)?;
    Ok(json::page(repositories, query.headers(page, response.total_count, &call.links)))
}

pub(crate) async fn add_repository(Authenticated(call): Authenticated, path: Params) -> ApiResult {
    let request = call.request(AddTeamRepositoryRequest {
        team_id: path.id("id"),
        repository: path.name("repo"),
        as_administrator: call.as_administrator,
    });
    call.clients.teams().add_team_repository(request).await?;
    Ok(json::no_content())
}

pub(crate) async fn remove_repository(Authenticated(call): Authenticated, path: Params) -> ApiResult {
    let request = call.request(RemoveTeamRepositoryRequest {
        team_id: path.id("id"),
        repository: path.name("repo"),
        as_administrator: call.as_administrator,
    });
    call.clients.teams().remove_team_repository(request).await?;
    Ok(json::no_content())
}
