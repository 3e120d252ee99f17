//! Single members and repositories of teams, and the preconditions of adding and removing them.

use ferrite_db::Tx;
use ferrite_proto::Permission;
use ferrite_proto::id::{RepositoryId, TeamId};
use ferrite_proto::repo::*;
use ferrite_rpc::auth::AuthError;
use ferrite_rpc::version::{self, is_conditional};
use tonic::Request;

use super::authorized::Authorized;
use super::{encode, versions};
use crate::error::RepoError;
use crate::model::User as Account;
use crate::state::AppState;
use crate::store::Team as TeamRow;

pub(super) async fn get_team_member(
    state: &AppState,
    authorized: Authorized,
    request: Request<GetTeamMemberRequest>,
) -> Result<GetTeamMemberResponse, RepoError> {
    let (request, viewer) = (request.into_inner(), authorized.viewer());
    let team = authorized.team(&state.teams, TeamId(request.team_id)).await?;
    let user = state.accounts.find(&request.username, viewer).await?.ok_or(RepoError::MemberNotFound)?;
    if !state.teams.is_member(team.id(), user.id).await? {
        return Err(RepoError::MemberNotFound);
    }
    version::tell(&versions::account(user.id));
    Ok(GetTeamMemberResponse { user: Some(encode::user(user, viewer)) })
}

pub(super) async fn get_team_repository(
    state: &AppState,
    authorized: Authorized,
    request: Request<GetTeamRepositoryRequest>,
) -> Result<GetTeamRepositoryResponse, RepoError> {
    let (request, viewer) = (request.into_inner(), authorized.viewer());
    let team = authorized.team(&state.teams, TeamId(request.team_id)).await?;
    require_owner(&team, &request.organization)?;
    let found = state.teams.find_repository(team.organization_id(), &request.repository).await?;
    let (id, _) = found.ok_or(AuthError::RepositoryNotFound)?;
    if !state.teams.covers(team.id(), id).await? {
        return Err(AuthError::RepositoryNotFound.into());
    }
    let by_id = Some(RepositoryRef::by_id(id));
    let row = authorized.visible_repository_with_parent(&state.repositories, by_id).await?;
    // The lists of repositories leave out those of which the caller sees issues or webhooks only.
    if row.level(viewer) < Permission::Read {
        return Err(AuthError::RepositoryNotFound.into());
    }
    version::tell(&versions::repository(&row));
    Ok(GetTeamRepositoryResponse { repository: Some(encode::repository_with_parent(row, viewer)) })
}

/// Fails if a request names an owner other than the team's organization.
pub(super) fn require_owner(team: &TeamRow, owner: &str) -> Result<(), AuthError> {
    let is_right = owner.is_empty() || owner.eq_ignore_ascii_case(&team.organization);
    if is_right { Ok(()) } else { Err(AuthError::RepositoryNotFound) }
}

/// Checks the precondition of adding or removing a member. The team must be locked.
pub(super) fn require_member_version(tx: &Tx, user: &Account, is_member: bool) -> Result<(), RepoError> {
    Ok(tx.require_version(is_member.then(|| versions::account(user.id)).as_ref())?)
}

/// Checks the precondition of adding or removing a repository. The team must be locked.
pub(super) async fn require_repository_version(
    state: &AppState,
    authorized: &Authorized,
    tx: &mut Tx,
    team: &TeamRow,
    repository: RepositoryId,
) -> Result<(), RepoError> {
    if !is_conditional() {
        return Ok(());
    }
    let row = match state.teams.covers_in(tx, team.id(), repository).await? {
        true => state.repositories.find_in(tx, repository, authorized.viewer()).await?,
        false => None,
    };
    Ok(tx.require_version(row.as_ref().map(versions::repository).as_ref())?)
}
