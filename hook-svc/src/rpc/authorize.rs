//! Authorization by the owner of webhooks: by a grant of repo-svc for the repository, the organization or the site.
//!
//! Not here: the rules, which are repo-svc's.

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

/// The owner of the webhooks that a request is about, whose caller may do its operation.
#[derive(Clone, Debug)]
pub(crate) struct HookAccess {
    pub(crate) owner: Owner,
    /// The organization as the request names it; empty for other owners.
    pub(crate) organization: String,
    /// The caller.
    pub(crate) user: UserId,
    /// The caller as the audit log names it.
    pub(crate) audit: AuditContext,
    /// The percentage of the limits per hour that applies to the caller; `None` for 100.
    pub(crate) rate_percent: Option<u32>,
}

impl AppState {
    /// Returns the owner that a request names, if the caller may do the operation of the request to it.
    ///
    /// # Errors
    /// [`AuthError`], or [`HookError::Invalid`] for a request without an owner.
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

/// Returns the owner that a grant is about, and the name if it is an organization.
fn owner_of(grant: &Grant) -> Result<(Owner, String), AuthError> {
    match &grant.subject {
        Subject::Repository => Ok((Owner::Repository(grant.repository_id()), String::new())),
        Subject::Organization { id, name } => Ok((Owner::Organization(*id), name.clone())),
        Subject::Site => Ok((Owner::Site, String::new())),
        Subject::User => Err(AuthError::BadGrant),
    }
}
