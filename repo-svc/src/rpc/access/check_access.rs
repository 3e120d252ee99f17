use ferrite_proto::id::TeamId;
use ferrite_proto::repo::check_access_request::Target;
use ferrite_proto::repo::{CheckAccessRequest, CheckAccessResponse};
use tonic::Request;

use super::limits;
use crate::access::{Capacity, Operation};
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

/// Makes the same checks against the table as the operation itself.
pub(super) async fn handle(
    state: &AppState,
    _: Permit,
    request: Request<CheckAccessRequest>,
) -> Result<CheckAccessResponse, RepoError> {
    let checked = request.get_ref();
    let has_row = |capacity| Operation::find(&checked.operation, capacity).is_some();
    let capacity = match (checked.as_administrator, &checked.target) {
        (true, _) => Capacity::Administrator,
        (false, Some(Target::Organization(_))) if has_row(Capacity::Organization) => Capacity::Organization,
        (false, _) => Capacity::Own,
    };
    let permit = Permit::for_operation(&request, &checked.operation, capacity)?;
    permit.check_caller()?;
    let mut answer = CheckAccessResponse::default();
    if let Ok(identity) = permit.identity() {
        (answer.user_id, answer.username) = (identity.user_id, identity.username.clone());
        answer.rate_percent = limits::rate_percent(state, &permit).await?;
    }
    match request.into_inner().target {
        Some(Target::Repository(repository)) => {
            permit.repository(&state.repositories, Some(repository)).await?;
        }
        Some(Target::Organization(_) | Target::TeamId(_)) | None if capacity == Capacity::Administrator => {}
        Some(Target::Organization(name)) => {
            answer.organization_id = permit.organization(&state.organizations, &name).await?.id().0;
        }
        Some(Target::TeamId(id)) => {
            permit.team(&state.teams, TeamId(id)).await?;
        }
        None => {}
    }
    Ok(answer)
}
