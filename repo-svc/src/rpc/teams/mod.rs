//! Teams: groups of members of an organization, with a level on some of its repositories.

mod add_team_member;
mod add_team_repository;
mod create_team;
mod delete_team;
mod get_team;
mod list_team_members;
mod list_team_repositories;
mod list_teams;
mod lookup;
mod remove_team_member;
mod remove_team_repository;
mod update_team;

use ferrite_proto::repo::team_service_server::TeamService;
use ferrite_proto::repo::*;

use super::dispatch::permitted_service;

permitted_service!(TeamService {
    list_teams(ListTeamsRequest) -> ListTeamsResponse;
    get_team(GetTeamRequest) -> GetTeamResponse;
    create_team(CreateTeamRequest, as_administrator) -> CreateTeamResponse;
    update_team(UpdateTeamRequest) -> UpdateTeamResponse;
    delete_team(DeleteTeamRequest) -> DeleteTeamResponse;
    list_team_members(ListTeamMembersRequest, as_administrator) -> ListTeamMembersResponse;
    add_team_member(AddTeamMemberRequest, as_administrator) -> AddTeamMemberResponse;
    remove_team_member(RemoveTeamMemberRequest, as_administrator) -> RemoveTeamMemberResponse;
    list_team_repositories(ListTeamRepositoriesRequest) -> ListTeamRepositoriesResponse;
    add_team_repository(AddTeamRepositoryRequest, as_administrator) -> AddTeamRepositoryResponse;
    remove_team_repository(RemoveTeamRepositoryRequest, as_administrator) -> RemoveTeamRepositoryResponse;
});
