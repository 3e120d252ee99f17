//! Authorizes requests with a grant of repo-svc for the owner of the webhooks. repo-svc holds the
//! rules.

use ferrite_proto::error::FieldViolation;
use ferrite_proto::grant::{Grant, Subject};
use ferrite_proto::hook::HookOwner;
use ferrite_proto::hook::hook_owner;
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_rpc::auth::{AuthError, Caller, OperationSubject};
use tonic::Request;

use super::audit::AuditContext;
use crate::error::HookError;
use crate::model::Owner;
use crate::state::AppState;

/// The owner that a request names, on which the caller may do the requested operation.
#[derive(Clone, Debug)]
pub(crate) struct HookAccess {
    pub(crate) owner: Owner,
    /// The organization's name in the request. Empty for other owners.
    pub(crate) organization: String,
    pub(crate) user: UserId,
    pub(crate) audit: AuditContext,
    /// The caller's percentage of the hourly limits. `None` means 100.
    pub(crate) rate_percent: Option<u32>,
}

impl AppState {
    /// Returns the owner that a request names, if the caller may do the requested operation on it.
    pub(crate) async fn authorize_owner<T: Sync>(
        &self,
        request: &Request<T>,
        owner: Option<&HookOwner>,
    ) -> Result<HookAccess, HookError> {
        let caller = Caller::of(request);
        let grant = match owner.and_then(|owner| owner.owner.as_ref()) {
            Some(hook_owner::Owner::RepositoryId(id)) => self.authorizer.authorize(&caller, RepositoryId(*id)).await?,
            Some(hook_owner::Owner::Organization(name)) => {
                self.authorizer.authorize_subject(&caller, OperationSubject::Organization(name)).await?
            }
            Some(hook_owner::Owner::Site(true)) => {
                self.authorizer.authorize_subject(&caller, OperationSubject::Site).await?
            }
            Some(hook_owner::Owner::Site(false)) | None => {
                return Err(HookError::Invalid(vec![FieldViolation::new("owner", "required", "is required")]));
            }
        };
        let (owner, organization) = owner_of(&grant)?;
        let user = grant.user.as_ref().ok_or(AuthError::CredentialsRequired)?;
        Ok(HookAccess {
            owner,
            organization,
            user: UserId(user.id),
            audit: AuditContext::new(&caller, user.id, &user.username, request.metadata()),
            rate_percent: grant.limits.rate_percent,
        })
    }
}

/// Returns the owner in a grant. The name is empty unless it is an organization.
fn owner_of(grant: &Grant) -> Result<(Owner, String), AuthError> {
    match &grant.subject {
        Subject::Repository => Ok((Owner::Repository(grant.repository_id()), String::new())),
        Subject::Organization { id, name } => Ok((Owner::Organization(*id), name.clone())),
        Subject::Site => Ok((Owner::Site, String::new())),
        Subject::User => Err(AuthError::BadGrant),
    }
}
