use ferrite_proto::id::TeamId;
use ferrite_proto::repo::check_access_request::Target;
use ferrite_proto::repo::{CheckAccessRequest, CheckAccessResponse};
use tonic::Request;

use crate::access::Capacity;
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
    let capacity = match (checked.as_administrator, &checked.target) {
        (true, _) => Capacity::Administrator,
        // The only operation with a row for this capacity.
        (false, Some(Target::Organization(_))) if checked.operation.ends_with("/CreateRepository") => {
            Capacity::Organization
        }
        (false, _) => Capacity::Own,
    };
    let permit = Permit::for_operation(&request, &checked.operation, capacity)?;
    permit.check_caller()?;
    match request.into_inner().target {
        Some(Target::Repository(repository)) => {
            permit.repository(&state.repositories, Some(repository)).await.map(|_| ())
        }
        Some(Target::Organization(_) | Target::TeamId(_)) | None if capacity == Capacity::Administrator => Ok(()),
        Some(Target::Organization(name)) => permit.organization(&state.organizations, &name).await.map(|_| ()),
        Some(Target::TeamId(id)) => permit.team(&state.teams, TeamId(id)).await.map(|_| ()),
        None => Ok(()),
    }?;
    Ok(CheckAccessResponse {})
}
