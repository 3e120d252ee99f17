//! Teams: groups of organization members with a level on some of its repositories.

use ferrite_db::Tx;
use ferrite_db::idempotency::{IdempotencyKey, once};
use ferrite_proto::id::{RepositoryId, TeamId};
use ferrite_proto::repo::team_service_server::TeamService;
use ferrite_proto::repo::*;
use ferrite_rpc::auth::AuthError;
use ferrite_rpc::version::{self, is_conditional};
use tonic::Request;

use super::authorized::Authorized;
use super::dispatch::{self, authorized_service};
use super::team_members::{
    get_team_member, get_team_repository, require_member_version, require_owner, require_repository_version,
};
use super::{change, encode, lookup, lost_rights, repeat, versions};
use crate::access::Capacity;
use crate::error::RepoError;
use crate::model::{CheckedTeam, TeamChange};
use crate::state::AppState;
use crate::store::{Action, Target, Team};

authorized_service!(TeamService {
    list_teams(ListTeamsRequest) -> ListTeamsResponse;
    get_team(GetTeamRequest) -> GetTeamResponse;
    create_team(CreateTeamRequest, as_administrator) -> CreateTeamResponse;
    update_team(UpdateTeamRequest) -> UpdateTeamResponse;
    delete_team(DeleteTeamRequest) -> DeleteTeamResponse;
    list_team_members(ListTeamMembersRequest, as_administrator) -> ListTeamMembersResponse;
    get_team_member(GetTeamMemberRequest) -> GetTeamMemberResponse;
    add_team_member(AddTeamMemberRequest, as_administrator) -> AddTeamMemberResponse;
    remove_team_member(RemoveTeamMemberRequest, as_administrator) -> RemoveTeamMemberResponse;
    list_team_repositories(ListTeamRepositoriesRequest) -> ListTeamRepositoriesResponse;
    get_team_repository(GetTeamRepositoryRequest) -> GetTeamRepositoryResponse;
    add_team_repository(AddTeamRepositoryRequest, as_administrator) -> AddTeamRepositoryResponse;
    remove_team_repository(RemoveTeamRepositoryRequest, as_administrator) -> RemoveTeamRepositoryResponse;
});

/// Fields of teams, as changes and the audit log name them.
const ALL_REPOSITORIES: &str = "includes_all_repositories";
const CREATES: &str = "can_create_org_repo";

async fn list_teams(
    state: &AppState,
    authorized: Authorized,
    request: Request<ListTeamsRequest>,
) -> Result<ListTeamsResponse, RepoError> {
    let request = request.into_inner();
    let organization = authorized.organization(&state.organizations, &request.organization).await?;
    let page = lookup::page(request.page, request.page_size);
    let (rows, total_count) = state.teams.list(organization.id(), authorized.viewer().user(), page).await?;
    Ok(ListTeamsResponse { teams: rows.into_iter().map(encode::team).collect(), total_count })
}

async fn get_team(
    state: &AppState,
    authorized: Authorized,
    request: Request<GetTeamRequest>,
) -> Result<GetTeamResponse, RepoError> {
    let team = authorized.team(&state.teams, TeamId(request.get_ref().team_id)).await?;
    let team = encode::team(team);
    version::tell(&versions::team(team.clone()));
    Ok(GetTeamResponse { team: Some(team) })
}

async fn create_team(
    state: &AppState,
    authorized: Authorized,
    request: Request<CreateTeamRequest>,
) -> Result<CreateTeamResponse, RepoError> {
    let key = IdempotencyKey::of(&request, authorized.user()?.0, "CreateTeam")?;
    let access = repeat::organization(state, &authorized, request.get_ref().organization.clone());
    repeat::once(&state.db, key.as_ref(), access, create(state, &request.into_inner(), &authorized, key.as_ref())).await
}

async fn create(
    state: &AppState,
    request: &CreateTeamRequest,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<CreateTeamResponse, RepoError> {
    let id = match authorized.capacity() {
        Capacity::Administrator => lookup::organization(state, &request.organization, authorized.viewer()).await?.id(),
        Capacity::Own | Capacity::Organization => {
            authorized.organization(&state.organizations, &request.organization).await?.id()
        }
    };
    let new = CheckedTeam::check(request)?;
    state.creation_limit.count(authorized.identity()?).await?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    if !state.organizations.lock(&mut tx, id).await? {
        return Err(RepoError::OrganizationNotFound);
    }
    let team = state.teams.insert(&mut tx, id, &new, authorized.viewer().user(), now).await?;
    let mut details = vec![("permission", team.permission().to_string())];
    details.extend(flags(&team).into_iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| (flag, "true".to_owned())));
    change::record(&mut tx, authorized, Action::TeamCreate, Target::team(&team), &details, now).await?;
    change::commit(tx, key, CreateTeamResponse { team: Some(encode::team(team)) }, now).await
}

async fn update_team(
    state: &AppState,
    authorized: Authorized,
    request: Request<UpdateTeamRequest>,
) -> Result<UpdateTeamResponse, RepoError> {
    let key = IdempotencyKey::of(&request, authorized.user()?.0, "UpdateTeam")?;
    let access = repeat::team(state, &authorized, request.get_ref().team_id);
    repeat::once(&state.db, key.as_ref(), access, update(state, &request.into_inner(), &authorized, key.as_ref())).await
}

async fn update(
    state: &AppState,
    request: &UpdateTeamRequest,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<UpdateTeamResponse, RepoError> {
    let found = authorized.team(&state.teams, TeamId(request.team_id)).await?;
    let wanted = TeamChange::check(request)?;
    let fields = ["permission", ALL_REPOSITORIES, CREATES];
    dispatch::refuse_at_commit_if(fields.iter().any(|field| takes(&found, &wanted, field)));
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    let old = lock(state, &mut tx, &found).await?;
    require_version(&tx, &old)?;
    let fields = state.teams.update(&mut tx, &old, &wanted).await?;
    let takes_only_access_away = fields.iter().all(|field| takes(&old, &wanted, field));
    dispatch::never_refuse_if(!fields.is_empty() && takes_only_access_away);
    let new = state.teams.reload(&mut tx, old.id(), None).await?.ok_or(RepoError::TeamNotFound)?;
    if !fields.is_empty() {
        // The target has the old name, the details the new one.
        let mut details = vec![
            ("fields", fields.join(",")),
            ("name", new.name.clone()),
            ("permission", new.permission().to_string()),
        ];
        let changed = flags(&new).into_iter().filter(|(flag, _)| fields.contains(flag));
        details.extend(changed.map(|(flag, is_set)| (flag, is_set.to_string())));
        change::record(&mut tx, authorized, Action::TeamUpdate, Target::team(&old), &details, now).await?;
    }
    change::commit(tx, key, UpdateTeamResponse { team: Some(encode::team(new)) }, now).await
}

fn flags(team: &Team) -> [(&'static str, bool); 2] {
    [(ALL_REPOSITORIES, team.includes_all_repositories()), (CREATES, team.can_create_repositories())]
}

/// Whether the change of a field takes access away from the members of the team.
fn takes(team: &Team, wanted: &TeamChange, field: &str) -> bool {
    match field {
        "permission" => wanted.permission.is_some_and(|new| new < team.permission()),
        ALL_REPOSITORIES => team.includes_all_repositories() && wanted.includes_all_repositories == Some(false),
        CREATES => team.can_create_repositories() && wanted.can_create_repositories == Some(false),
        _ => false,
    }
}

async fn delete_team(
    state: &AppState,
    authorized: Authorized,
    request: Request<DeleteTeamRequest>,
) -> Result<DeleteTeamResponse, RepoError> {
    let key = IdempotencyKey::of(&request, authorized.user()?.0, "DeleteTeam")?;
    once(&state.db, key.as_ref(), delete(state, &request.into_inner(), &authorized, key.as_ref())).await
}

async fn delete(
    state: &AppState,
    request: &DeleteTeamRequest,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<DeleteTeamResponse, RepoError> {
    let found = authorized.team(&state.teams, TeamId(request.team_id)).await?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    let team = lock(state, &mut tx, &found).await?;
    require_version(&tx, &team)?;
    state.teams.delete(&mut tx, &team).await?;
    change::record(&mut tx, authorized, Action::TeamDelete, Target::team(&team), &[], now).await?;
    change::commit(tx, key, DeleteTeamResponse {}, now).await
}

async fn list_team_members(
    state: &AppState,
    authorized: Authorized,
    request: Request<ListTeamMembersRequest>,
) -> Result<ListTeamMembersResponse, RepoError> {
    let (request, viewer) = (request.into_inner(), authorized.viewer());
    let team = authorized.team(&state.teams, TeamId(request.team_id)).await?;
    let page = lookup::page(request.page, request.page_size);
    let (rows, total_count) = state.teams.members(team.id(), page).await?;
    Ok(ListTeamMembersResponse { users: encode::users(rows, viewer), total_count })
}

async fn add_team_member(
    state: &AppState,
    authorized: Authorized,
    request: Request<AddTeamMemberRequest>,
) -> Result<AddTeamMemberResponse, RepoError> {
    let key = IdempotencyKey::of(&request, authorized.user()?.0, "AddTeamMember")?;
    let access = repeat::team(state, &authorized, request.get_ref().team_id);
    repeat::once(&state.db, key.as_ref(), access, add_member(state, &request.into_inner(), &authorized, key.as_ref()))
        .await
}

async fn add_member(
    state: &AppState,
    request: &AddTeamMemberRequest,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<AddTeamMemberResponse, RepoError> {
    let found = authorized.team(&state.teams, TeamId(request.team_id)).await?;
    let user = lookup::user(state, &request.username).await?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    let team = lock(state, &mut tx, &found).await?;
    if is_conditional() {
        let is_member = state.teams.has_member(&mut tx, team.id(), user.id).await?;
        require_member_version(&tx, &user, is_member)?;
    }
    if state.organizations.join(&mut tx, team.organization_id(), user.id, now).await? {
        let role = if team.is_owners() { "admin" } else { "member" };
        let details = [("user", user.username.clone()), ("role", role.to_owned())];
        let target = Target::organization(team.organization_id(), &team.organization);
        change::record(&mut tx, authorized, Action::MemberSet, target, &details, now).await?;
    }
    if state.teams.add_member(&mut tx, team.id(), user.id, now).await? {
        let details = [("user", user.username)];
        change::record(&mut tx, authorized, Action::TeamMemberAdd, Target::team(&team), &details, now).await?;
    }
    change::commit(tx, key, AddTeamMemberResponse {}, now).await
}

async fn remove_team_member(
    state: &AppState,
    authorized: Authorized,
    request: Request<RemoveTeamMemberRequest>,
) -> Result<RemoveTeamMemberResponse, RepoError> {
    let key = IdempotencyKey::of(&request, authorized.user()?.0, "RemoveTeamMember")?;
    let access = repeat::team(state, &authorized, request.get_ref().team_id);
    repeat::once(
        &state.db,
        key.as_ref(),
        access,
        remove_member(state, &request.into_inner(), &authorized, key.as_ref()),
    )
    .await
}

async fn remove_member(
    state: &AppState,
    request: &RemoveTeamMemberRequest,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<RemoveTeamMemberResponse, RepoError> {
    let found = authorized.team(&state.teams, TeamId(request.team_id)).await?;
    let user = lookup::user(state, &request.username).await?;
    dispatch::refuse_at_commit_if(state.teams.is_member(found.id(), user.id).await?);
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    let team = lock(state, &mut tx, &found).await?;
    let is_member = state.teams.has_member(&mut tx, team.id(), user.id).await?;
    require_member_version(&tx, &user, is_member)?;
    dispatch::never_refuse_if(is_member);
    if is_member {
        if team.is_owners() {
            state.organizations.require_other_owner(&mut tx, team.organization_id(), user.id).await?;
        }
        state.teams.remove_member(&mut tx, team.id(), user.id).await?;
        lost_rights::end_waiting(state, &mut tx, authorized, user.id, now).await?;
        let details = [("user", user.username)];
        change::record(&mut tx, authorized, Action::TeamMemberRemove, Target::team(&team), &details, now).await?;
    }
    change::commit(tx, key, RemoveTeamMemberResponse {}, now).await
}

async fn list_team_repositories(
    state: &AppState,
    authorized: Authorized,
    request: Request<ListTeamRepositoriesRequest>,
) -> Result<ListTeamRepositoriesResponse, RepoError> {
    let (request, viewer) = (request.into_inner(), authorized.viewer());
    let team = authorized.team(&state.teams, TeamId(request.team_id)).await?;
    let page = lookup::page(request.page, request.page_size);
    let (rows, total_count) = state.repositories.list_of_team(&team, viewer, page).await?;
    let repositories = encode::repositories(&state.repositories, rows, viewer).await?;
    Ok(ListTeamRepositoriesResponse { repositories, total_count })
}

async fn add_team_repository(
    state: &AppState,
    authorized: Authorized,
    request: Request<AddTeamRepositoryRequest>,
) -> Result<AddTeamRepositoryResponse, RepoError> {
    let key = IdempotencyKey::of(&request, authorized.user()?.0, "AddTeamRepository")?;
    let access = repeat::team(state, &authorized, request.get_ref().team_id);
    repeat::once(
        &state.db,
        key.as_ref(),
        access,
        add_repository(state, &request.into_inner(), &authorized, key.as_ref()),
    )
    .await
}

async fn add_repository(
    state: &AppState,
    request: &AddTeamRepositoryRequest,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<AddTeamRepositoryResponse, RepoError> {
    let found = authorized.team(&state.teams, TeamId(request.team_id)).await?;
    require_owner(&found, &request.organization)?;
    let (id, name) = find_repository(state, &found, &request.repository).await?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    let team = lock(state, &mut tx, &found).await?;
    require_repository_version(state, authorized, &mut tx, &team, id).await?;
    if team.is_owners() {
        // The owners team already holds every repository.
        return change::commit(tx, key, AddTeamRepositoryResponse {}, now).await;
    }
    if state.teams.add_repository(&mut tx, team.id(), id, now).await? {
        change::record(
            &mut tx,
            authorized,
            Action::TeamRepositoryAdd,
            Target::team(&team),
            &[("repository", name)],
            now,
        )
        .await?;
    }
    change::commit(tx, key, AddTeamRepositoryResponse {}, now).await
}

async fn remove_team_repository(
    state: &AppState,
    authorized: Authorized,
    request: Request<RemoveTeamRepositoryRequest>,
) -> Result<RemoveTeamRepositoryResponse, RepoError> {
    let key = IdempotencyKey::of(&request, authorized.user()?.0, "RemoveTeamRepository")?;
    let access = repeat::team(state, &authorized, request.get_ref().team_id);
    repeat::once(
        &state.db,
        key.as_ref(),
        access,
        remove_repository(state, &request.into_inner(), &authorized, key.as_ref()),
    )
    .await
}

async fn remove_repository(
    state: &AppState,
    request: &RemoveTeamRepositoryRequest,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<RemoveTeamRepositoryResponse, RepoError> {
    let found = authorized.team(&state.teams, TeamId(request.team_id)).await?;
    require_owner(&found, &request.organization)?;
    let (id, name) = find_repository(state, &found, &request.repository).await?;
    require_rows(&found)?;
    dispatch::refuse_at_commit_if(state.teams.holds(found.id(), id).await?);
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    let team = lock(state, &mut tx, &found).await?;
    require_rows(&team)?;
    require_repository_version(state, authorized, &mut tx, &team, id).await?;
    let is_removed = state.teams.remove_repository(&mut tx, team.id(), id).await?;
    dispatch::never_refuse_if(is_removed);
    if is_removed {
        change::record(
            &mut tx,
            authorized,
            Action::TeamRepositoryRemove,
            Target::team(&team),
            &[("repository", name)],
            now,
        )
        .await?;
    }
    change::commit(tx, key, RemoveTeamRepositoryResponse {}, now).await
}

/// Fails for a team from which no single repository can be taken, because it has all of them.
pub(super) fn require_rows(team: &Team) -> Result<(), RepoError> {
    match (team.is_owners(), team.includes_all_repositories()) {
        (true, _) => Err(RepoError::OwnersTeam),
        (false, true) => Err(RepoError::TeamHasAllRepositories),
        (false, false) => Ok(()),
    }
}

/// Locks the organization of a team and reads the team again. Until the transaction ends, nothing
/// else changes the team or its members.
async fn lock(state: &AppState, tx: &mut Tx, found: &Team) -> Result<Team, RepoError> {
    state.organizations.lock(tx, found.organization_id()).await?;
    state.teams.reload(tx, found.id(), None).await?.ok_or(RepoError::TeamNotFound)
}

/// The team must have been read under the lock.
fn require_version(tx: &Tx, team: &Team) -> Result<(), RepoError> {
    if is_conditional() {
        tx.require_version(Some(&versions::team(encode::team(team.clone()))))?;
    }
    Ok(())
}

/// Returns the id and the exact name of a repository of the team's organization.
async fn find_repository(state: &AppState, team: &Team, name: &str) -> Result<(RepositoryId, String), RepoError> {
    let found = state.teams.find_repository(team.organization_id(), name).await?;
    Ok(found.ok_or(AuthError::RepositoryNotFound)?)
}
