//! Authorization of operations on a repository.
//!
//! Not here: verifying the grant of a request, which [`AuthLayer`](super::AuthLayer) has done before.

use std::sync::Arc;
use std::time::Duration;

use ferrite_proto::grant::{ByteQuota, Grant, Verifier};
use ferrite_proto::id::RepositoryId;
use ferrite_proto::repo::access_service_client::AccessServiceClient;
use ferrite_proto::repo::migration_service_client::MigrationServiceClient;
use ferrite_proto::repo::{GetStorageQuotaRequest, ReauthorizeAccessRequest, RepositoryRef, ResolveAccessRequest};
use futures_util::future::BoxFuture;

use super::caller::Caller;
use super::error::AuthError;
use crate::grpc::{Channel, with_timeout};

/// Deadline of a new decision about an access.
const REAUTHORIZE_TIMEOUT: Duration = Duration::from_secs(5);
/// Deadline of a question for a quota.
const QUOTA_TIMEOUT: Duration = Duration::from_secs(5);

/// Authorizes operations on a repository: by the grant of the request, or by a grant that repo-svc gives for the caller's token.
/// Caches nothing.
#[derive(Clone)]
pub struct Access {
    authority: Channel,
    verifier: Arc<Verifier>,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Access").finish_non_exhaustive()
    }
}

impl Access {
    /// Returns an authorization that accepts the grants that `verifier` accepts, and asks repo-svc over `authority`.
    #[must_use]
    pub fn new(authority: Channel, verifier: Arc<Verifier>) -> Self {
        Self { authority, verifier }
    }

    /// Returns the caller's grant for the operation that it calls ([`Caller::operation`]) on `repository`. The existence of the grant
    /// is the permission.
    ///
    /// # Errors
    /// [`AuthError::BadGrant`] for a grant of another repository or operation, [`AuthError::RepositoryNotFound`] if the caller may not
    /// see the repository, [`AuthError::Refused`] if it may see the repository and not do the operation,
    /// [`AuthError::CredentialsRequired`] if the request has neither grant nor token.
    pub async fn authorize(&self, caller: &Caller, repository: RepositoryId) -> Result<Arc<Grant>, AuthError> {
        self.authorize_as(caller, &caller.operation, repository).await
    }

    /// Returns the caller's grant for `operation`, which need not be an RPC: a name in [`ferrite_proto::operation`].
    ///
    /// # Errors
    /// As [`Access::authorize`].
    pub async fn authorize_as(
        &self,
        caller: &Caller,
        operation: &str,
        repository: RepositoryId,
    ) -> Result<Arc<Grant>, AuthError> {
        let grant = match &caller.grant {
            Some(grant) => Arc::clone(grant),
            None => Arc::new(self.resolve(caller, operation, repository).await?),
        };
        if grant.repository_id() != repository || grant.operation != operation {
            return Err(AuthError::BadGrant);
        }
        Ok(grant)
    }

    /// Asks repo-svc to decide anew about an access that it gave.
    ///
    /// # Errors
    /// The error of the caller, as of [`Access::authorize`], if it lost the access; [`AuthError::Unavailable`] if repo-svc does not
    /// respond.
    pub fn reauthorize(&self, request: ReauthorizeAccessRequest) -> BoxFuture<'_, Result<(), AuthError>> {
        // Boxed for the same reason as below.
        Box::pin(async move {
            let request = with_timeout(request, REAUTHORIZE_TIMEOUT);
            let answer = AccessServiceClient::new(self.authority.clone()).reauthorize_access(request).await;
            answer.map(drop).map_err(|status| AuthError::from_authority(&status))
        })
    }

    /// Returns the quota of the owner of a repository or wiki; `None` if it has none. For a store that is about to fetch.
    ///
    /// # Errors
    /// [`AuthError::RepositoryNotFound`] if repo-svc does not know it; [`AuthError::Unavailable`] if repo-svc does not respond.
    pub fn storage_quota(&self, repository: RepositoryId) -> BoxFuture<'_, Result<Option<ByteQuota>, AuthError>> {
        // Boxed for the same reason as below.
        Box::pin(async move {
            let request = with_timeout(GetStorageQuotaRequest { repository_id: repository.0 }, QUOTA_TIMEOUT);
            let answer = MigrationServiceClient::new(self.authority.clone()).get_storage_quota(request).await;
            let quota = answer.map_err(|status| AuthError::from_authority(&status))?.into_inner().quota;
            let bytes = |bytes| u64::try_from(bytes).unwrap_or_default();
            Ok(quota.map(|quota| ByteQuota { used: bytes(quota.used_bytes), limit: bytes(quota.limit_bytes) }))
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

    async fn call_repo(&self, caller: &Caller, operation: &str, repository: RepositoryId) -> Result<Grant, AuthError> {
        let request = caller.request(ResolveAccessRequest {
            repository: Some(RepositoryRef::by_id(repository)),
            operation: operation.to_owned(),
            ..ResolveAccessRequest::default()
        })?;
        let answer = AccessServiceClient::new(self.authority.clone()).resolve_access(request).await;
        let grant = answer.map_err(|status| AuthError::from_authority(&status))?.into_inner().grant;
        self.verifier.verify(&grant).map(|(grant, _)| grant).map_err(|_| AuthError::BadGrant)
    }
}
