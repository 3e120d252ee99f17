//! Authorizes operations on a repository, an organization, the site, or the caller's own account.
//! [`AuthLayer`](super::AuthLayer) has verified the grant of a request before.

use std::sync::Arc;
use std::time::Duration;

use ferrite_proto::error::reason;
use ferrite_proto::grant::{ByteQuota, Grant, Subject, Verifier};
use ferrite_proto::id::RepositoryId;
use ferrite_proto::repo::access_service_client::AccessServiceClient;
use ferrite_proto::repo::check_access_request::Target;
use ferrite_proto::repo::migration_service_client::MigrationServiceClient;
use ferrite_proto::repo::release_service_client::ReleaseServiceClient;
use ferrite_proto::repo::{
    CheckAccessRequest, GetStorageQuotaRequest, GetTagUseRequest, ReauthorizeAccessRequest, RepositoryRef,
    ResolveAccessRequest, ResolveActivityAccessRequest, ResolveActivityAccessResponse, ResolveFeedAccessRequest,
    ResolveFeedAccessResponse,
};
use futures_util::future::BoxFuture;
use tonic::Status;

use super::caller::Caller;
use super::error::AuthError;
use crate::grpc::{Channel, with_timeout};

const REAUTHORIZE_TIMEOUT: Duration = Duration::from_secs(5);
const QUOTA_TIMEOUT: Duration = Duration::from_secs(5);
const TAG_USE_TIMEOUT: Duration = Duration::from_secs(5);

/// Authorizes operations by the grant of the request, or by a grant that repo-svc issues for the
/// caller's token. Caches nothing.
#[derive(Clone)]
pub struct Authorizer {
    authority: Channel,
    verifier: Arc<Verifier>,
}

/// The subject of an operation that is not about a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationSubject<'r> {
    /// An organization, by its name.
    Organization(&'r str),
    /// The site.
    Site,
    /// The caller's own account.
    User,
}

impl OperationSubject<'_> {
    /// Whether a grant about `granted` is about this subject.
    fn is(self, granted: &Subject) -> bool {
        match (self, granted) {
            (Self::Organization(asked), Subject::Organization { name, .. }) => asked == name,
            (Self::Site, Subject::Site) | (Self::User, Subject::User) => true,
            _ => false,
        }
    }

    fn check(self, operation: &str) -> CheckAccessRequest {
        let target = match self {
            Self::Organization(name) => Some(Target::Organization(name.to_owned())),
            Self::Site | Self::User => None,
        };
        CheckAccessRequest { operation: operation.to_owned(), as_administrator: self == Self::Site, target }
    }
}

impl Authorizer {
    /// Returns an authorizer that verifies grants with `verifier` and asks repo-svc over
    /// `authority`.
    #[must_use]
    pub fn new(authority: Channel, verifier: Arc<Verifier>) -> Self {
        Self { authority, verifier }
    }

    /// Returns the caller's grant for the called operation ([`Caller::operation`]) on `repository`.
    /// Having the grant means having the permission.
    ///
    /// # Errors
    /// [`AuthError::BadGrant`] for a grant for another repository or operation,
    /// [`AuthError::RepositoryNotFound`] if the caller may not see the repository,
    /// [`AuthError::Refused`] if it may see it but not do the operation,
    /// [`AuthError::CredentialsRequired`] if the request has neither grant nor token.
    pub async fn authorize(&self, caller: &Caller, repository: RepositoryId) -> Result<Arc<Grant>, AuthError> {
        self.authorize_as(caller, &caller.operation, repository).await
    }

    /// Like [`Authorizer::authorize`], for any name in [`ferrite_proto::operation`], which need not
    /// be an RPC.
    ///
    /// # Errors
    /// As [`Authorizer::authorize`].
    pub async fn authorize_as(
        &self,
        caller: &Caller,
        operation: &str,
        repository: RepositoryId,
    ) -> Result<Arc<Grant>, AuthError> {
        let grant = self.grant_of(caller, operation, repository).await?;
        if grant.subject != Subject::Repository || grant.repository_id() != repository || grant.operation != operation {
            return Err(AuthError::BadGrant);
        }
        Ok(grant)
    }

    /// Like [`Authorizer::authorize`], for an operation on the wiki of `repository`. The repository of
    /// the grant is the wiki.
    ///
    /// # Errors
    /// As [`Authorizer::authorize`], and [`AuthError::WikiNotFound`].
    pub async fn authorize_wiki(&self, caller: &Caller, repository: RepositoryId) -> Result<Arc<Grant>, AuthError> {
        let grant = self.grant_of(caller, &caller.operation, repository).await?;
        let access = grant.reauthorization.as_ref();
        let is_right = access.is_some_and(|access| access.is_wiki && access.repository == repository.0);
        if grant.subject != Subject::Repository || !is_right || grant.operation != caller.operation {
            return Err(AuthError::BadGrant);
        }
        Ok(grant)
    }

    /// Returns the grant of the request, unchecked, or one of repo-svc for the caller's token.
    async fn grant_of(
        &self,
        caller: &Caller,
        operation: &str,
        repository: RepositoryId,
    ) -> Result<Arc<Grant>, AuthError> {
        if let Some(grant) = &caller.grant {
            return Ok(Arc::clone(grant));
        }
        let grant = self.resolve(caller, operation, repository).await?;
        caller.set_writer_of(&grant);
        Ok(Arc::new(grant))
    }

    /// Returns the caller's grant for the called operation ([`Caller::operation`]) on a subject
    /// other than a repository. The grant has a user.
    ///
    /// # Errors
    /// [`AuthError::BadGrant`] for a grant for another subject or operation,
    /// [`AuthError::OrganizationNotFound`], [`AuthError::AdminRequired`] or [`AuthError::Refused`]
    /// if the caller may not do the operation, [`AuthError::CredentialsRequired`] if the request
    /// has neither grant nor token.
    pub async fn authorize_subject(
        &self,
        caller: &Caller,
        subject: OperationSubject<'_>,
    ) -> Result<Arc<Grant>, AuthError> {
        let grant = match &caller.grant {
            Some(grant) => Arc::clone(grant),
            None => {
                let grant = self.check(caller, subject).await?;
                caller.set_writer_of(&grant);
                Arc::new(grant)
            }
        };
        if !subject.is(&grant.subject) || grant.user.is_none() || grant.operation != caller.operation {
            return Err(AuthError::BadGrant);
        }
        Ok(grant)
    }

    /// Asks repo-svc to check again whether an access that it granted still holds.
    ///
    /// # Errors
    /// The errors of [`Authorizer::authorize`] if the caller lost the access;
    /// [`AuthError::Unavailable`] if repo-svc does not respond.
    pub fn reauthorize(&self, request: ReauthorizeAccessRequest) -> BoxFuture<'_, Result<(), AuthError>> {
        // Boxed for the same reason as `resolve`.
        Box::pin(async move {
            let request = with_timeout(request, REAUTHORIZE_TIMEOUT);
            let response = AccessServiceClient::new(self.authority.clone()).reauthorize_access(request).await;
            response.map(drop).map_err(|status| AuthError::from_authority(&status))
        })
    }

    /// Asks repo-svc to check the reader of a feed again, and which of some events it may read.
    ///
    /// # Errors
    /// As [`Authorizer::reauthorize`].
    pub fn resolve_feed(
        &self,
        request: ResolveFeedAccessRequest,
    ) -> BoxFuture<'_, Result<ResolveFeedAccessResponse, AuthError>> {
        // Boxed for the same reason as `resolve`.
        Box::pin(async move {
            let request = with_timeout(request, REAUTHORIZE_TIMEOUT);
            let response = AccessServiceClient::new(self.authority.clone()).resolve_feed_access(request).await;
            response.map(tonic::Response::into_inner).map_err(|status| AuthError::from_authority(&status))
        })
    }

    /// Asks repo-svc what a reader of activities can read now.
    ///
    /// # Errors
    /// As [`Authorizer::reauthorize`].
    pub fn resolve_activity(
        &self,
        request: ResolveActivityAccessRequest,
    ) -> BoxFuture<'_, Result<ResolveActivityAccessResponse, AuthError>> {
        // Boxed for the same reason as `resolve`.
        Box::pin(async move {
            let request = with_timeout(request, REAUTHORIZE_TIMEOUT);
            let response = AccessServiceClient::new(self.authority.clone()).resolve_activity_access(request).await;
            response.map(tonic::Response::into_inner).map_err(|status| AuthError::from_authority(&status))
        })
    }

    /// Returns the quota of the owner of a repository or wiki, if any. Used by a store before it
    /// fetches.
    ///
    /// # Errors
    /// [`AuthError::RepositoryNotFound`] if repo-svc does not know it; [`AuthError::Unavailable`]
    /// if repo-svc does not respond.
    pub fn storage_quota(&self, repository: RepositoryId) -> BoxFuture<'_, Result<Option<ByteQuota>, AuthError>> {
        // Boxed for the same reason as `resolve`.
        Box::pin(async move {
            let request = with_timeout(GetStorageQuotaRequest { repository_id: repository.0 }, QUOTA_TIMEOUT);
            let response = MigrationServiceClient::new(self.authority.clone()).get_storage_quota(request).await;
            let quota = response.map_err(|status| AuthError::from_authority(&status))?.into_inner().quota;
            let bytes = |bytes| u64::try_from(bytes).unwrap_or_default();
            Ok(quota.map(|quota| ByteQuota { used: bytes(quota.used_bytes), limit: bytes(quota.limit_bytes) }))
        })
    }

    /// Whether a release of a repository has a tag or is about to get it. Used by a store before it
    /// deletes the tag.
    ///
    /// # Errors
    /// [`AuthError::Unavailable`] if repo-svc does not respond.
    pub fn is_tag_in_use<'a>(
        &'a self,
        repository: RepositoryId,
        tag_name: &'a str,
    ) -> BoxFuture<'a, Result<bool, AuthError>> {
        // Boxed for the same reason as `resolve`.
        Box::pin(async move {
            let request = GetTagUseRequest { repository_id: repository.0, tag_name: tag_name.to_owned() };
            let request = with_timeout(request, TAG_USE_TIMEOUT);
            let response = ReleaseServiceClient::new(self.authority.clone()).get_tag_use(request).await;
            Ok(response.map_err(|status| AuthError::from_authority(&status))?.into_inner().is_in_use)
        })
    }

    /// Asks repo-svc. Boxed, so that the gRPC client is compiled once, in this crate.
    fn resolve<'a>(
        &'a self,
        caller: &'a Caller,
        operation: &'a str,
        repository: RepositoryId,
    ) -> BoxFuture<'a, Result<Grant, AuthError>> {
        Box::pin(self.call_repo(caller, operation, repository))
    }

    /// Asks repo-svc about a subject other than a repository. Boxed for the same reason as
    /// `resolve`.
    fn check<'a>(
        &'a self,
        caller: &'a Caller,
        subject: OperationSubject<'a>,
    ) -> BoxFuture<'a, Result<Grant, AuthError>> {
        Box::pin(async move {
            let request = caller.request(subject.check(&caller.operation))?;
            let response = AccessServiceClient::new(self.authority.clone()).check_access(request).await;
            let grant = response.map_err(|status| refusal(&status))?.into_inner().grant;
            self.verified(&grant)
        })
    }

    async fn call_repo(&self, caller: &Caller, operation: &str, repository: RepositoryId) -> Result<Grant, AuthError> {
        let request = caller.request(ResolveAccessRequest {
            repository: Some(RepositoryRef::by_id(repository)),
            operation: operation.to_owned(),
            ..ResolveAccessRequest::default()
        })?;
        let response = AccessServiceClient::new(self.authority.clone()).resolve_access(request).await;
        let grant = response.map_err(|status| AuthError::from_authority(&status))?.into_inner().grant;
        self.verified(&grant)
    }

    fn verified(&self, grant: &str) -> Result<Grant, AuthError> {
        self.verifier.verify(grant).map(|(grant, _)| grant).map_err(|_| AuthError::BadGrant)
    }
}

/// Converts a failed `CheckAccess`. A status that requires an administrator is about the operation,
/// because the asking service needs no such right.
fn refusal(status: &Status) -> AuthError {
    match reason(status).as_deref() {
        Some("ADMIN_REQUIRED") => AuthError::AdminRequired,
        _ => AuthError::from_authority(status),
    }
}
