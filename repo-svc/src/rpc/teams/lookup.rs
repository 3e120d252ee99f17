use ferrite_kit::auth::AuthError;
use ferrite_kit::db::Tx;
use ferrite_proto::id::RepositoryId;

use crate::error::RepoError;
use crate::state::AppState;
use crate::store::Team;

/// Locks the organization of a team that was found before, and reads the team again: until the transaction ends, no other one
/// changes the team or its members.
///
/// # Errors
/// [`RepoError::TeamNotFound`] if the team was deleted meanwhile, or those of the database.
pub(super) async fn lock(state: &AppState, tx: &mut Tx, found: &Team) -> Result<Team, RepoError> {
    state.organizations.lock(tx, found.organization_id()).await?;
    state.teams.reload(tx, found.id(), None).await?.ok_or(RepoError::TeamNotFound)
}

/// Returns the id and the name, as it is spelled, of a repository of the team's organization.
///
/// # Errors
/// [`AuthError::RepositoryNotFound`], or those of the database.
pub(super) async fn repository(state: &AppState, team: &Team, name: &str) -> Result<(RepositoryId, String), RepoError> {
    let found = state.teams.find_repository(team.organization_id(), name).await?;
    Ok(found.ok_or(AuthError::RepositoryNotFound)?)
}
