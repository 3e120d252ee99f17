use ferrite_proto::grant::{Grant, GrantLimits, Subject};
use ferrite_proto::id::TeamId;
use ferrite_proto::repo::check_access_request::Target;
use ferrite_proto::repo::{CheckAccessRequest, CheckAccessResponse};
use tonic::Request;

use super::limits;
use super::resolve_access::grant_user;
use crate::access::{Capacity, Operation};
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

/// Makes the same checks against the table as the operation itself. For services only: a grant is valid for up to a minute after its
/// token was revoked, so users never get one.
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
    let mut subject = None;
    match request.into_inner().target {
        Some(Target::Repository(repository)) => {
            permit.repository(&state.repositories, Some(repository)).await?;
        }
        Some(Target::Organization(_) | Target::TeamId(_)) | None if capacity == Capacity::Administrator => {
            subject = Some(Subject::Site);
        }
        Some(Target::Organization(name)) => {
            answer.organization_id = permit.organization(&state.organizations, &name).await?.id().0;
            subject = Some(Subject::Organization { id: answer.organization_id, name });
        }
        Some(Target::TeamId(id)) => {
            permit.team(&state.teams, TeamId(id)).await?;
        }
        None => subject = Some(Subject::User),
    }
    if let (Some(subject), Ok(identity)) = (subject, permit.identity())
        && permit.is_for_another_service()
    {
        let limits = GrantLimits { rate_percent: answer.rate_percent, ..GrantLimits::default() };
        let (user, operation) = (Some(grant_user(identity)), permit.operation().to_owned());
        answer.grant = state.grants.sign(Grant { user, subject, operation, limits, ..Grant::default() });
    }
    Ok(answer)
}
