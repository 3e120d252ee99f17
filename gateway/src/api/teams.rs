//! Teams, their members and their repositories. Handlers with `AS_ADMINISTRATOR` also serve the routes of [`super::admin`].

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ferrite_proto::repo::{
    AddTeamMemberRequest, AddTeamRepositoryRequest, CreateTeamRequest, DeleteTeamRequest, GetTeamRequest,
    ListTeamMembersRequest, ListTeamRepositoriesRequest, ListTeamsRequest, RemoveTeamMemberRequest,
    RemoveTeamRepositoryRequest, UpdateTeamRequest,
};

use super::access::PermissionCheck;
use super::operation;
use super::state::ApiState;
use crate::auth::Authenticated;
use crate::dto::{Team, require};
use crate::http::body::JsonBody;
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::Params;
use crate::http::query::Query;
use crate::http::routes::routes;

routes! { ApiState:
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
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
    query: Query,
) -> Result<Response, ApiError> {
    let page = query.page(PageLimits::WHOLE_LIST);
    let request = ListTeamsRequest { organization: path.name("org"), page: page.number, page_size: page.size };
    let answer = api.clients.teams().list_teams(context.request(request)).await?.into_inner();
    let teams: Vec<_> = answer.teams.into_iter().map(Team::from).collect();
    Ok(json::page(teams, query.headers(page, answer.total_count, &api.links)))
}

pub(super) async fn create<const AS_ADMINISTRATOR: bool>(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let organization = path.name("org");
    let check =
        PermissionCheck::of(operation::CREATE_TEAM).by_administrator(AS_ADMINISTRATOR).on_organization(&organization);
    let decode = api.decode_body(&context, check, body, |fields| CreateTeamRequest {
        organization,
        name: fields.required_non_empty("name"),
        description: fields.text_or_empty("description"),
        permission: fields.text_or_empty("permission"),
        as_administrator: AS_ADMINISTRATOR,
    });
    let request = context.request(decode.await?);
    let answer = api.clients.teams().create_team(request).await?.into_inner();
    Ok(json::created(Team::from(require(answer.team, "team")?)))
}

async fn get(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
) -> Result<Response, ApiError> {
    let request = context.request(GetTeamRequest { team_id: path.id("id") });
    let answer = api.clients.teams().get_team(request).await?.into_inner();
    Ok(json::ok(Team::from(require(answer.team, "team")?)))
}

async fn update(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let team_id = path.id("id");
    let check = PermissionCheck::of(operation::UPDATE_TEAM).on_team(team_id);
    let decode = api.decode_body(&context, check, body, |fields| UpdateTeamRequest {
        team_id,
        name: fields.optional_non_empty("name"),
        description: fields.optional_text("description"),
        permission: fields.optional_non_empty("permission"),
    });
    let request = context.request(decode.await?);
    let answer = api.clients.teams().update_team(request).await?.into_inner();
    Ok(json::ok(Team::from(require(answer.team, "team")?)))
}

async fn remove(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
) -> Result<Response, ApiError> {
    let request = context.request(DeleteTeamRequest { team_id: path.id("id") });
    api.clients.teams().delete_team(request).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn members<const AS_ADMINISTRATOR: bool>(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
    query: Query,
) -> Result<Response, ApiError> {
    let page = query.page(PageLimits::WHOLE_LIST);
    let request = context.request(ListTeamMembersRequest {
        team_id: path.id("id"),
        page: page.number,
        page_size: page.size,
        as_administrator: AS_ADMINISTRATOR,
    });
    let answer = api.clients.teams().list_team_members(request).await?.into_inner();
    let members = api.users(&context, answer.users);
    Ok(json::page(members, query.headers(page, answer.total_count, &api.links)))
}

pub(super) async fn add_member<const AS_ADMINISTRATOR: bool>(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
) -> Result<Response, ApiError> {
    let request = context.request(AddTeamMemberRequest {
        team_id: path.id("id"),
        username: path.name("username"),
        as_administrator: AS_ADMINISTRATOR,
    });
    api.clients.teams().add_team_member(request).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn remove_member<const AS_ADMINISTRATOR: bool>(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
) -> Result<Response, ApiError> {
    let request = context.request(RemoveTeamMemberRequest {
        team_id: path.id("id"),
        username: path.name("username"),
        as_administrator: AS_ADMINISTRATOR,
    });
    api.clients.teams().remove_team_member(request).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn repositories(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
    query: Query,
) -> Result<Response, ApiError> {
    let page = query.page(PageLimits::WHOLE_LIST);
    let request = ListTeamRepositoriesRequest { team_id: path.id("id"), page: page.number, page_size: page.size };
    let answer = api.clients.teams().list_team_repositories(context.request(request)).await?.into_inner();
    let repositories = api.repositories(&context, answer.repositories)?;
    Ok(json::page(repositories, query.headers(page, answer.total_count, &api.links)))
}

pub(super) async fn add_repository<const AS_ADMINISTRATOR: bool>(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
) -> Result<Response, ApiError> {
    let request = context.request(AddTeamRepositoryRequest {
        team_id: path.id("id"),
        repository: path.name("repo"),
        as_administrator: AS_ADMINISTRATOR,
    });
    api.clients.teams().add_team_repository(request).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn remove_repository<const AS_ADMINISTRATOR: bool>(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: Params,
) -> Result<Response, ApiError> {
    let request = context.request(RemoveTeamRepositoryRequest {
        team_id: path.id("id"),
        repository: path.name("repo"),
        as_administrator: AS_ADMINISTRATOR,
    });
    api.clients.teams().remove_team_repository(request).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
