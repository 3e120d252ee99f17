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
use ferrite_proto::repo::{
    AddTeamMemberRequest, AddTeamMemberResponse, AddTeamRepositoryRequest, AddTeamRepositoryResponse,
    CreateTeamRequest, CreateTeamResponse, DeleteTeamRequest, DeleteTeamResponse, GetTeamRequest, GetTeamResponse,
    ListTeamMembersRequest, ListTeamMembersResponse, ListTeamRepositoriesRequest, ListTeamRepositoriesResponse,
    ListTeamsRequest, ListTeamsResponse, RemoveTeamMemberRequest, RemoveTeamMemberResponse,
    RemoveTeamRepositoryRequest, RemoveTeamRepositoryResponse, UpdateTeamRequest, UpdateTeamResponse,
};

use super::dispatch::service;
use crate::access::Capacity;
use crate::rpc::permit::ActsAs;

service!(TeamService {
    list_teams(ListTeamsRequest) -> ListTeamsResponse;
    get_team(GetTeamRequest) -> GetTeamResponse;
    create_team(CreateTeamRequest, capacity) -> CreateTeamResponse;
    update_team(UpdateTeamRequest) -> UpdateTeamResponse;
    delete_team(DeleteTeamRequest) -> DeleteTeamResponse;
    list_team_members(ListTeamMembersRequest, capacity) -> ListTeamMembersResponse;
    add_team_member(AddTeamMemberRequest, capacity) -> AddTeamMemberResponse;
    remove_team_member(RemoveTeamMemberRequest, capacity) -> RemoveTeamMemberResponse;
    list_team_repositories(ListTeamRepositoriesRequest) -> ListTeamRepositoriesResponse;
    add_team_repository(AddTeamRepositoryRequest, capacity) -> AddTeamRepositoryResponse;
    remove_team_repository(RemoveTeamRepositoryRequest, capacity) -> RemoveTeamRepositoryResponse;
});

macro_rules! as_administrator {
    ($($request:ty),* $(,)?) => {
        $(impl ActsAs for $request {
            fn capacity(&self) -> Capacity {
                if self.as_administrator { Capacity::Administrator } else { Capacity::Own }
            }
        })*
    };
}

as_administrator!(
    CreateTeamRequest,
    ListTeamMembersRequest,
    AddTeamMemberRequest,
    RemoveTeamMemberRequest,
    AddTeamRepositoryRequest,
    RemoveTeamRepositoryRequest,
);
