//! The teams that hold a repository of an organization.

use ferrite_db::idempotency::IdempotencyKey;
use ferrite_proto::repo::repository_team_service_server::RepositoryTeamService;
use ferrite_proto::repo::{
    AddRepositoryTeamRequest, AddRepositoryTeamResponse, GetRepositoryTeamRequest, GetRepositoryTeamResponse,
    ListRepositoryTeamsRequest, ListRepositoryTeamsResponse, RemoveRepositoryTeamRequest, RemoveRepositoryTeamResponse,
    RepositoryRef,
};
use ferrite_proto::{Permission, Scope};
use ferrite_rpc::auth::AuthError;
use ferrite_rpc::version;
use tonic::Request;

use super::authorized::Authorized;
use super::dispatch::authorized_service;
use super::teams::require_rows;
use super::{change, encode, lookup, repeat, versions};
use crate::access::RequiredRole;
use crate::error::RepoError;
use crate::state::AppState;
use crate::store::{Action, Organization, OrganizationRole, Repository, Target, Team};

authorized_service!(RepositoryTeamService {
    list_repository_teams(ListRepositoryTeamsRequest) -> ListRepositoryTeamsResponse;
    get_repository_team(GetRepositoryTeamRequest) -> GetRepositoryTeamResponse;
    add_repository_team(AddRepositoryTeamRequest) -> AddRepositoryTeamResponse;
    remove_repository_team(RemoveRepositoryTeamRequest) -> RemoveRepositoryTeamResponse;
});

/// Scopes that a token needs to give a team a repository, and to take it away.
const ADDING: &[Scope] = &[Scope::Org, Scope::RepoAdmin];
const REMOVING: &[Scope] = &[Scope::Org];

/// A repository of an organization.
struct Owned {
    repository: Repository,
    organization: Organization,
}

impl Owned {
    /// Fails if a user owns the repository.
    async fn find(
        state: &AppState,
        authorized: &Authorized,
        repository: Option<RepositoryRef>,
    ) -> Result<Self, RepoError> {
        let repository = authorized.repository(&state.repositories, repository).await?;
        let organization = lookup::organization(state, &repository.owner_name, authorized.viewer()).await?;
        Ok(Self { repository, organization })
    }

    /// Whether the caller sees the teams of the organization.
    fn has_visible_teams(&self, authorized: &Authorized) -> Result<bool, RepoError> {
        let viewer = authorized.viewer();
        let is_insider = viewer.is_site_administrator() || self.organization.role() != OrganizationRole::Outsider;
        match is_insider && !viewer.scopes().contain(Scope::Org) {
            true => Err(AuthError::InsufficientScope { scope: Scope::Org }.into()),
            false => Ok(is_insider),
        }
    }

    /// Finds a team of the organization, whether it holds the repository or not.
    async fn team(&self, state: &AppState, authorized: &Authorized, name: &str) -> Result<Team, RepoError> {
        if !self.has_visible_teams(authorized)? {
            return Err(RepoError::TeamNotFound);
        }
        let found = state.teams.find_named(self.organization.id(), name, authorized.viewer().user()).await?;
        found.ok_or(RepoError::TeamNotFound)
    }

    /// Decides who may change the teams of the repository: owners of the organization, and its
    /// members who administrate the repository if the organization lets them.
    fn require_manager(&self, authorized: &Authorized, scopes: &[Scope]) -> Result<(), RepoError> {
        let is_administrator = authorized.level(&self.repository) >= Permission::Admin;
        if !(is_administrator && self.organization.admins_change_teams) {
            authorized.require_role(RequiredRole::Owner, self.organization.role())?;
        }
        let owned = authorized.viewer().scopes();
        match scopes.iter().find(|scope| !owned.contain(**scope)) {
            Some(scope) => Err(AuthError::InsufficientScope { scope: *scope }.into()),
            None => Ok(()),
        }
    }
}

/// Finds a repository and a team that the caller may give it to, or take it from.
async fn find_managed(
    state: &AppState,
    authorized: &Authorized,
    repository: Option<RepositoryRef>,
    team: &str,
    scopes: &[Scope],
) -> Result<(Owned, Team), RepoError> {
    let owned = Owned::find(state, authorized, repository).await?;
    let team = owned.team(state, authorized, team).await?;
    owned.require_manager(authorized, scopes)?;
    Ok((owned, team))
}

async fn list_repository_teams(
    state: &AppState,
    authorized: Authorized,
    request: Request<ListRepositoryTeamsRequest>,
) -> Result<ListRepositoryTeamsResponse, RepoError> {
    let request = request.into_inner();
    let owned = Owned::find(state, &authorized, request.repository).await?;
    if !owned.has_visible_teams(&authorized)? {
        return Ok(ListRepositoryTeamsResponse::default());
    }
    let page = lookup::page(request.page, request.page_size);
    let (organization, viewer) = (owned.organization.id(), authorized.viewer().user());
    let (rows, total_count) = state.teams.list_of_repository(organization, owned.repository.id(), viewer, page).await?;
    Ok(ListRepositoryTeamsResponse { teams: rows.into_iter().map(encode::team).collect(), total_count })
}

async fn get_repository_team(
    state: &AppState,
    authorized: Authorized,
    request: Request<GetRepositoryTeamRequest>,
) -> Result<GetRepositoryTeamResponse, RepoError> {
    let request = request.into_inner();
    let owned = Owned::find(state, &authorized, request.repository).await?;
    let team = owned.team(state, &authorized, &request.team).await?;
    if !state.teams.covers(team.id(), owned.repository.id()).await? {
        return Err(RepoError::TeamNotFound);
    }
    let team = encode::team(team);
    version::tell(&versions::team(team.clone()));
    Ok(GetRepositoryTeamResponse { team: Some(team) })
}

async fn add_repository_team(
    state: &AppState,
    authorized: Authorized,
    request: Request<AddRepositoryTeamRequest>,
) -> Result<AddRepositoryTeamResponse, RepoError> {
    let key = repeat::key_for_repository(state, &authorized, &request, "AddRepositoryTeam", |request| {
        &mut request.repository
    })
    .await?;
    let AddRepositoryTeamRequest { repository, team } = request.into_inner();
    let access = async { find_managed(state, &authorized, repository.clone(), &team, ADDING).await.map(drop) };
    repeat::once(&state.db, key.as_ref(), access, add(state, &authorized, repository.clone(), &team, key.as_ref()))
        .await
}

async fn add(
    state: &AppState,
    authorized: &Authorized,
    repository: Option<RepositoryRef>,
    team: &str,
    key: Option<&IdempotencyKey>,
) -> Result<AddRepositoryTeamResponse, RepoError> {
    let (Owned { repository, organization }, found) = find_managed(state, authorized, repository, team, ADDING).await?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    state.organizations.lock(&mut tx, organization.id()).await?;
    let team = state.teams.reload(&mut tx, found.id(), None).await?.ok_or(RepoError::TeamNotFound)?;
    let is_held = state.teams.covers_in(&mut tx, team.id(), repository.id()).await?;
    tx.require_version(is_held.then(|| versions::team(encode::team(team.clone()))).as_ref())?;
    // A team that includes all repositories gets a row, which counts when it no longer does.
    if !team.is_owners() && state.teams.add_repository(&mut tx, team.id(), repository.id(), now).await? {
        let details = [("repository", repository.name)];
        change::record(&mut tx, authorized, Action::TeamRepositoryAdd, Target::team(&team), &details, now).await?;
    }
    change::commit(tx, key, AddRepositoryTeamResponse {}, now).await
}

async fn remove_repository_team(
    state: &AppState,
    authorized: Authorized,
    request: Request<RemoveRepositoryTeamRequest>,
) -> Result<RemoveRepositoryTeamResponse, RepoError> {
    let key = repeat::key_for_repository(state, &authorized, &request, "RemoveRepositoryTeam", |request| {
        &mut request.repository
    })
    .await?;
    let RemoveRepositoryTeamRequest { repository, team } = request.into_inner();
    let access = async { find_managed(state, &authorized, repository.clone(), &team, REMOVING).await.map(drop) };
    repeat::once(&state.db, key.as_ref(), access, remove(state, &authorized, repository.clone(), &team, key.as_ref()))
        .await
}

async fn remove(
    state: &AppState,
    authorized: &Authorized,
    repository: Option<RepositoryRef>,
    team: &str,
    key: Option<&IdempotencyKey>,
) -> Result<RemoveRepositoryTeamResponse, RepoError> {
    let (Owned { repository, organization }, found) =
        find_managed(state, authorized, repository, team, REMOVING).await?;
    require_rows(&found)?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    state.organizations.lock(&mut tx, organization.id()).await?;
    let team = state.teams.reload(&mut tx, found.id(), None).await?.ok_or(RepoError::TeamNotFound)?;
    if !state.teams.covers_in(&mut tx, team.id(), repository.id()).await? {
        return Err(RepoError::TeamNotFound);
    }
    tx.require_version(Some(&versions::team(encode::team(team.clone()))))?;
    require_rows(&team)?;
    state.teams.remove_repository(&mut tx, team.id(), repository.id()).await?;
    let details = [("repository", repository.name)];
    change::record(&mut tx, authorized, Action::TeamRepositoryRemove, Target::team(&team), &details, now).await?;
    change::commit(tx, key, RemoveRepositoryTeamResponse {}, now).await
}
