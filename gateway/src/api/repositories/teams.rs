//! The teams that have a repository of an organization. Gogs does not have these routes; they are
//! Gitea's.

use ferrite_api_types::convert::require;
use ferrite_proto::operation;
use ferrite_proto::repo::{
    AddRepositoryTeamRequest, GetRepositoryTeamRequest, ListRepositoryTeamsRequest, RemoveRepositoryTeamRequest,
};

use crate::api::call::{Authenticated, operations};
use crate::api::organizations::teams::Team;
use crate::http::error::ApiResult;
use crate::http::page::WholeList;
use crate::http::path::{Params, RepoPath};
use crate::http::response::{Json, List, NoContent};

operations! {
    "/api/v1/repos/{owner}/{repo}/teams" => get list as operation::LIST_REPOSITORY_TEAMS;
    "/api/v1/repos/{owner}/{repo}/teams/{team}" =>
        get get as operation::GET_REPOSITORY_TEAM,
        put add as operation::ADD_REPOSITORY_TEAM,
        delete remove as operation::REMOVE_REPOSITORY_TEAM;
}

async fn list(Authenticated(call): Authenticated, path: RepoPath, query: WholeList) -> ApiResult<List<Team>> {
    let repository = Some(path.repository());
    let request = ListRepositoryTeamsRequest { repository, page: query.page.number, page_size: query.page.size };
    let response = call.clients.repository_teams().list_repository_teams(call.request(request)).await?.into_inner();
    let teams = response.teams.into_iter().map(|team| Team::new(team, &call.links)).collect();
    Ok(query.list(teams, response.total_count, &call.links))
}

async fn get(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult<Json<Team>> {
    let request = GetRepositoryTeamRequest { repository: Some(path.repository()), team: params.name("team") };
    let response = call.clients.repository_teams().get_repository_team(call.request(request)).await?.into_inner();
    Ok(Json(Team::new(require(response.team, "team")?, &call.links)))
}

async fn add(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult<NoContent> {
    let request = AddRepositoryTeamRequest { repository: Some(path.repository()), team: params.name("team") };
    call.clients.repository_teams().add_repository_team(call.request(request)).await?;
    Ok(NoContent)
}

async fn remove(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult<NoContent> {
    let request = RemoveRepositoryTeamRequest { repository: Some(path.repository()), team: params.name("team") };
    call.clients.repository_teams().remove_repository_team(call.request(request)).await?;
    Ok(NoContent)
}
