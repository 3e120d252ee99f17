use ferrite_proto::id::TeamId;
use ferrite_proto::repo::check_access_request::Target;
use ferrite_proto::repo::{CheckAccessRequest, CheckAccessResponse};
use tonic::Request;

use crate::RepoError;
use crate::access::{Acting, Permit};
use crate::core::Core;

/// Takes the same steps through the table as the operation itself would.
pub(super) async fn handle(
    core: &Core,
    _: Permit,
    request: Request<CheckAccessRequest>,
) -> Result<CheckAccessResponse, RepoError> {
    let wanted = request.get_ref();
    let acting = match (wanted.as_administrator, &wanted.target) {
        (true, _) => Acting::AsAdministrator,
        // The only operation that can be done for an organization and without one.
        (false, Some(Target::Organization(_))) if wanted.operation.ends_with("/CreateRepository") => {
            Acting::ForOrganization
        }
        (false, _) => Acting::Itself,
    };
    let permit = Permit::ahead(&request, &wanted.operation, acting)?;
    permit.check_caller()?;
    match request.into_inner().target {
        Some(Target::Repository(repository)) => permit.repository(core, Some(repository)).await.map(|_| ()),
        Some(Target::Organization(_) | Target::TeamId(_)) | None if acting == Acting::AsAdministrator => Ok(()),
        Some(Target::Organization(name)) => permit.organization(core, &name).await.map(|_| ()),
        Some(Target::TeamId(id)) => permit.team(core, TeamId(id)).await.map(|_| ()),
        None => Ok(()),
    }?;
    Ok(CheckAccessResponse {})
}
