//! Teams: parts of organizations, with members and repositories.

mod add_team_member;
mod add_team_repository;
mod create_team;
mod delete_team;
mod get_team;
mod list_team_members;
mod list_team_repositories;
mod list_teams;
mod remove_team_member;
mod remove_team_repository;
mod update_team;

use ferrite_kit::auth::AuthError;
use ferrite_kit::db::Tx;
use ferrite_proto::Permission;
use ferrite_proto::id::RepositoryId;
use ferrite_proto::repo;
use ferrite_proto::repo::team_service_server::TeamService;
use ferrite_proto::repo::{
    AddTeamMemberRequest, AddTeamMemberResponse, AddTeamRepositoryRequest, AddTeamRepositoryResponse,
    CreateTeamRequest, CreateTeamResponse, DeleteTeamRequest, DeleteTeamResponse, GetTeamRequest, GetTeamResponse,
    ListTeamMembersRequest, ListTeamMembersResponse, ListTeamRepositoriesRequest, ListTeamRepositoriesResponse,
    ListTeamsRequest, ListTeamsResponse, RemoveTeamMemberRequest, RemoveTeamMemberResponse,
    RemoveTeamRepositoryRequest, RemoveTeamRepositoryResponse, UpdateTeamRequest, UpdateTeamResponse,
};

use super::service;
use crate::RepoError;
use crate::access::{Acting, Mode};
use crate::core::Core;
use crate::model::lookup_key;
use crate::store::{Target, Team};

const MAX_PAGE_SIZE: i32 = 1_000;

service!(TeamService {
    list_teams(ListTeamsRequest) -> ListTeamsResponse;
    get_team(GetTeamRequest) -> GetTeamResponse;
    create_team(CreateTeamRequest, acting) -> CreateTeamResponse;
    update_team(UpdateTeamRequest) -> UpdateTeamResponse;
    delete_team(DeleteTeamRequest) -> DeleteTeamResponse;
    list_team_members(ListTeamMembersRequest, acting) -> ListTeamMembersResponse;
    add_team_member(AddTeamMemberRequest, acting) -> AddTeamMemberResponse;
    remove_team_member(RemoveTeamMemberRequest, acting) -> RemoveTeamMemberResponse;
    list_team_repositories(ListTeamRepositoriesRequest) -> ListTeamRepositoriesResponse;
    add_team_repository(AddTeamRepositoryRequest, acting) -> AddTeamRepositoryResponse;
    remove_team_repository(RemoveTeamRepositoryRequest, acting) -> RemoveTeamRepositoryResponse;
});

macro_rules! as_administrator {
    ($($request:ty),* $(,)?) => {
        $(impl Mode for $request {
            fn acting(&self) -> Acting {
                if self.as_administrator { Acting::AsAdministrator } else { Acting::Itself }
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

fn encode(row: Team) -> repo::Team {
    repo::Team {
        id: row.id,
        permission: repo::Permission::from(row.permission()).into(),
        name: row.name,
        description: row.description,
        organization_id: row.organization_id,
    }
}

/// What a team's members may do, as the audit log says it.
fn word(team: &Team) -> String {
    match team.permission() {
        Permission::None | Permission::Read => "read",
        Permission::Write => "write",
        Permission::Admin => "admin",
        Permission::Owner => "owner",
    }
    .to_owned()
}

fn target(team: &Team) -> Target {
    Target::team(team.id(), &team.organization, &team.name)
}

/// A team that was found before, as it is now that nobody else can change it or its members until the transaction ends.
async fn lock(core: &Core, tx: &mut Tx, found: &Team) -> Result<Team, RepoError> {
    core.organizations.lock(tx, found.organization_id()).await?;
    core.teams.reload(tx, found.id(), None).await?.ok_or(RepoError::TeamNotFound)
}

/// The repository of that name in the team's organization, and its name as it is spelled.
async fn repository(core: &Core, team: &Team, name: &str) -> Result<(RepositoryId, String), RepoError> {
    let found = match lookup_key(name) {
        Some(key) => core.teams.find_repository(team.organization_id(), &key).await?,
        None => None,
    };
    Ok(found.ok_or(AuthError::RepositoryNotFound)?)
}
