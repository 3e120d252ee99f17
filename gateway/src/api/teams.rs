//! Teams, their members and their repositories. Administrators of the site do some of this by other paths: see `admin`.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ferrite_proto::repo::{
    AddTeamMemberRequest, AddTeamRepositoryRequest, CreateTeamRequest, DeleteTeamRequest, GetTeamRequest,
    ListTeamMembersRequest, ListTeamRepositoriesRequest, ListTeamsRequest, RemoveTeamMemberRequest,
    RemoveTeamRepositoryRequest, UpdateTeamRequest,
};

use super::access::Attempt;
use super::operation;
use crate::auth::Signed;
use crate::dto::{Team, present};
use crate::http::body::Payload;
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::page::{Query, WHOLE};
use crate::http::path::Params;
use crate::http::routes::routes;
use crate::state::Gateway;

routes! { Gateway:
    "/api/v1/orgs/{org}/teams" => get list as operation::LIST_TEAMS, post create::<false> as operation::CREATE_TEAM;
    "/api/v1/teams/{id}" =>
        get get as operation::GET_TEAM,
        patch update as operation::UPDATE_TEAM,
        delete remove as operation::DELETE_TEAM;
    "/api/v1/teams/{id}/members" => get members::<false> as operation::LIST_TEAM_MEMBERS;
    "/api/v1/teams/{id}/members/{username}" =>
        put add_member::<false> as operation::ADD_TEAM_MEMBER,
        delete remove_member::<false> as operation::REMOVE_TEAM_MEMBER;
    "/api/v1/teams/{id}/repos" => get repositories as operation::LIST_TEAM_REPOSITORIES;
    "/api/v1/teams/{id}/repos/{repo}" =>
        put add_repository::<false> as operation::ADD_TEAM_REPOSITORY,
        delete remove_repository::<false> as operation::REMOVE_TEAM_REPOSITORY;
}

async fn list(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: Params,
    query: Query,
) -> Result<Response, ApiError> {
    let page = query.page(WHOLE);
    let request = ListTeamsRequest { organization: path.name("org"), page: page.number, page_size: page.size };
    let answer = gateway.clients.teams().list_teams(call.request(request)).await?.into_inner();
    let teams: Vec<_> = answer.teams.into_iter().map(Team::from).collect();
    Ok(json::page(teams, query.headers(page, answer.total_count, &gateway.links)))
}

pub(super) async fn create<const AS_ADMINISTRATOR: bool>(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: Params,
    payload: Payload,
) -> Result<Response, ApiError> {
    let organization = path.name("org");
    let attempt = Attempt::of(operation::CREATE_TEAM).by_administrator(AS_ADMINISTRATOR).on_organization(&organization);
    let decode = gateway.decoded(&call, attempt, payload, |fields| CreateTeamRequest {
        organization,
        name: fields.required("name"),
        description: fields.text_or_empty("description"),
        permission: fields.text_or_empty("permission"),
        as_administrator: AS_ADMINISTRATOR,
    });
    let request = call.request(decode.await?);
    let answer = gateway.clients.teams().create_team(request).await?.into_inner();
    Ok(json::created(Team::from(present(answer.team, "team")?)))
}

async fn get(State(gateway): State<Gateway>, Signed(call): Signed, path: Params) -> Result<Response, ApiError> {
    let request = call.request(GetTeamRequest { team_id: path.id("id") });
    let answer = gateway.clients.teams().get_team(request).await?.into_inner();
    Ok(json::ok(Team::from(present(answer.team, "team")?)))
}

async fn update(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: Params,
    payload: Payload,
) -> Result<Response, ApiError> {
    let team_id = path.id("id");
    let attempt = Attempt::of(operation::UPDATE_TEAM).on_team(team_id);
    let decode = gateway.decoded(&call, attempt, payload, |fields| UpdateTeamRequest {
        team_id,
        name: fields.optional_word("name"),
        description: fields.optional_text("description"),
        permission: fields.optional_word("permission"),
    });
    let request = call.request(decode.await?);
    let answer = gateway.clients.teams().update_team(request).await?.into_inner();
    Ok(json::ok(Team::from(present(answer.team, "team")?)))
}

async fn remove(State(gateway): State<Gateway>, Signed(call): Signed, path: Params) -> Result<Response, ApiError> {
    let request = call.request(DeleteTeamRequest { team_id: path.id("id") });
    gateway.clients.teams().delete_team(request).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn members<const AS_ADMINISTRATOR: bool>(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: Params,
    query: Query,
) -> Result<Response, ApiError> {
    let page = query.page(WHOLE);
    let request = call.request(ListTeamMembersRequest {
        team_id: path.id("id"),
        page: page.number,
        page_size: page.size,
        as_administrator: AS_ADMINISTRATOR,
    });
    let answer = gateway.clients.teams().list_team_members(request).await?.into_inner();
    let members = gateway.users(&call, answer.users);
    Ok(json::page(members, query.headers(page, answer.total_count, &gateway.links)))
}

pub(super) async fn add_member<const AS_ADMINISTRATOR: bool>(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: Params,
) -> Result<Response, ApiError> {
    let request = call.request(AddTeamMemberRequest {
        team_id: path.id("id"),
        username: path.name("username"),
        as_administrator: AS_ADMINISTRATOR,
    });
    gateway.clients.teams().add_team_member(request).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn remove_member<const AS_ADMINISTRATOR: bool>(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: Params,
) -> Result<Response, ApiError> {
    let request = call.request(RemoveTeamMemberRequest {
        team_id: path.id("id"),
        username: path.name("username"),
        as_administrator: AS_ADMINISTRATOR,
    });
    gateway.clients.teams().remove_team_member(request).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn repositories(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: Params,
    query: Query,
) -> Result<Response, ApiError> {
    let page = query.page(WHOLE);
    let request = ListTeamRepositoriesRequest { team_id: path.id("id"), page: page.number, page_size: page.size };
    let answer = gateway.clients.teams().list_team_repositories(call.request(request)).await?.into_inner();
    let repositories = gateway.repositories(&call, answer.repositories)?;
    Ok(json::page(repositories, query.headers(page, answer.total_count, &gateway.links)))
}

pub(super) async fn add_repository<const AS_ADMINISTRATOR: bool>(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: Params,
) -> Result<Response, ApiError> {
    let request = call.request(AddTeamRepositoryRequest {
        team_id: path.id("id"),
        repository: path.name("repo"),
        as_administrator: AS_ADMINISTRATOR,
    });
    gateway.clients.teams().add_team_repository(request).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn remove_repository<const AS_ADMINISTRATOR: bool>(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: Params,
) -> Result<Response, ApiError> {
    let request = call.request(RemoveTeamRepositoryRequest {
        team_id: path.id("id"),
        repository: path.name("repo"),
        as_administrator: AS_ADMINISTRATOR,
    });
    gateway.clients.teams().remove_team_repository(request).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
