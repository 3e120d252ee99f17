//! Authorization by the owner of webhooks: a grant for a repository, and a question to repo-svc, by the caller's token, for an organization
//! and for the site.
//!
//! Not here: the rules, which are repo-svc's.

use ferrite_kit::auth::{AuthError, Caller};
use ferrite_proto::error::{FieldViolation, reason};
use ferrite_proto::hook::HookOwner;
use ferrite_proto::hook::hook_owner;
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::repo::CheckAccessRequest;
use ferrite_proto::repo::access_service_client::AccessServiceClient;
use ferrite_proto::repo::check_access_request::Target;
use tonic::metadata::MetadataMap;
use tonic::{Request, Status};

use super::audit::AuditContext;
use super::service::HookRpc;
use crate::error::HookError;
use crate::model::Owner;

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

impl HookRpc {
    /// Returns the owner that a request names, if the caller may do the operation of the request to it.
    ///
    /// # Errors
    /// [`AuthError`], [`HookError::OrganizationNotFound`], or [`HookError::Invalid`] for a request without an owner.
    pub(crate) async fn authorize_owner<T: Sync>(
        &self,
        request: &Request<T>,
        owner: Option<&HookOwner>,
    ) -> Result<HookAccess, HookError> {
        let caller = Caller::of(request);
        match owner.and_then(|owner| owner.owner.as_ref()) {
            Some(hook_owner::Owner::RepositoryId(id)) => {
                let grant = self.access.authorize(&caller, RepositoryId(*id)).await?;
                let user = grant.user.as_ref().ok_or(AuthError::CredentialsRequired)?;
                Ok(HookAccess {
                    owner: Owner::Repository(RepositoryId(*id)),
                    organization: String::new(),
                    user: UserId(user.id),
                    audit: AuditContext::new(&caller, user.id, &user.username, request.metadata()),
                    rate_percent: grant.limits.rate_percent,
                })
            }
            Some(hook_owner::Owner::Organization(name)) => {
                self.check_access(&caller, request.metadata(), Some(name)).await
            }
            Some(hook_owner::Owner::Site(true)) => self.check_access(&caller, request.metadata(), None).await,
            Some(hook_owner::Owner::Site(false)) | None => {
                Err(HookError::Invalid(vec![FieldViolation::new("owner", "required", "is required")]))
            }
        }
    }

    /// Asks repo-svc whether the caller may do its operation for an organization, or without one as an administrator of the site.
    async fn check_access(
        &self,
        caller: &Caller,
        metadata: &MetadataMap,
        organization: Option<&String>,
    ) -> Result<HookAccess, HookError> {
        let request = caller.request(CheckAccessRequest {
            operation: caller.operation.clone(),
            as_administrator: organization.is_none(),
            target: organization.cloned().map(Target::Organization),
        })?;
        let answer = AccessServiceClient::new(self.repo.clone()).check_access(request).await;
        let answer = answer.map_err(|status| refused(&status))?.into_inner();
        Ok(HookAccess {
            owner: organization.map_or(Owner::Site, |_| Owner::Organization(answer.organization_id)),
            organization: organization.cloned().unwrap_or_default(),
            user: UserId(answer.user_id),
            audit: AuditContext::new(caller, answer.user_id, &answer.username, metadata),
            rate_percent: answer.rate_percent,
        })
    }
}

fn refused(status: &Status) -> HookError {
    match reason(status).as_deref() {
        Some("ORGANIZATION_NOT_FOUND") => HookError::OrganizationNotFound,
        Some("ADMIN_REQUIRED") => AuthError::AdminRequired.into(),
        Some("ORGANIZATION_OWNER_REQUIRED") => {
            AuthError::Refused { reason: "ORGANIZATION_OWNER_REQUIRED", message: status.message().to_owned() }.into()
        }
        _ => AuthError::from_authority(status).into(),
    }
}
